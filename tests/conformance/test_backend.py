"""What every backend does, whatever it is made of: the same questions to each, over its real wire."""

import json

import pytest
import trio
import trio.testing

from agents.errors import Refused
from agents.messages import Message, ModelReply, ModelRequest, ToolCall, ToolSpec
from orchestrator.backends.base import Connection
from tests.backends.recorder import Recorder
from tests.conformance.subjects import Subject

LIMIT_SECONDS = 60
MULTIPLY = ToolSpec(
    "multiply",
    "Multiplies two whole numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


def say(text: str, max_tokens: int = 16) -> ModelRequest:
    return ModelRequest("sim", (Message("user", text),), max_tokens=max_tokens, temperature=0.0)


def long_answer() -> ModelRequest:
    """A question whose answer takes a while on every backend."""
    return say("Write a long story about a river, a mill and the people who live there.", 300)


def order_before() -> tuple[Message, ...]:
    """A worked order: a small model calls a tool only after it has seen it done."""
    call = ToolCall("call_1", "multiply", json.dumps({"a": 12, "b": 9}))
    return (
        Message("system", "You work out what an order costs. Use the tool multiply."),
        Message("user", "The miller sells 12 sacks of flour. A sack costs 9 euros."),
        Message("assistant", tool_calls=(call,)),
        Message("tool", "108", tool_call_id=call.id),
        Message("assistant", "The order costs 108 euros."),
    )


@pytest.fixture
async def connection(subject: Subject) -> Connection:
    return subject.backend.connect()


async def send(connection: Connection, request: ModelRequest, recorder: Recorder | None = None) -> ModelReply:
    with trio.fail_after(LIMIT_SECONDS):
        return await connection.send(request, recorder or Recorder())


async def idle(subject: Subject) -> None:
    """Waits for the server to have no call left; a server notices a closed stream a moment later."""
    with trio.fail_after(5):
        while await subject.busy():  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_a_plain_answer(connection: Connection) -> None:
    """A question gets text, a finish reason and usage, and the deltas put together are the reply."""
    recorder = Recorder()
    reply = await send(connection, say("Say hello."), recorder)
    assert reply.message.role == "assistant"
    assert reply.message.content.strip()
    assert recorder.text == reply.message.content
    assert reply.finish_reason in ("stop", "length")
    await connection.aclose()


async def test_usage_is_reported(connection: Connection) -> None:
    """Usage is complete, within `max_tokens`, and the same in the report and in the reply."""
    recorder = Recorder()
    reply = await send(connection, say("Say hello."), recorder)
    assert recorder.usages[-1] == reply.usage
    assert reply.usage.all_input is not None
    assert reply.usage.output is not None
    assert 0 < reply.usage.all_input < 200
    assert 0 < reply.usage.output <= 16
    await connection.aclose()


async def test_progress_comes_in_order(connection: Connection) -> None:
    """Each request, also on a kept connection, is reported as connected, written, headers, then deltas."""
    for _ in range(2):
        recorder = Recorder()
        await send(connection, say("Say hello."), recorder)
        steps = [step for step in recorder.order if step not in ("alive", "usage")]
        assert steps[:4] == ["connected", "written", "headers", "deltas"]
        assert set(steps[4:]) <= {"deltas"}
        assert len(recorder.batches) > 1
    await connection.aclose()


async def test_max_tokens_bounds_the_answer(connection: Connection) -> None:
    """An answer that would be longer has exactly `max_tokens` tokens and ends by `length`."""
    request = ModelRequest("sim", long_answer().messages, max_tokens=8, temperature=0.0)
    reply = await send(connection, request)
    assert reply.finish_reason == "length"
    assert reply.usage.output == 8
    await connection.aclose()


async def test_a_tool_is_called_and_its_result_used(connection: Connection) -> None:
    """A tool call comes whole, in the deltas as in the reply, its arguments fit, and its result leads to an answer."""
    recorder = Recorder()
    messages = (*order_before(), Message("user", "A school wants 21 slates. A slate costs 2 euros."))
    request = ModelRequest("sim", messages, tools=(MULTIPLY,), max_tokens=64, temperature=0.0)
    reply = await send(connection, request, recorder)
    assert reply.finish_reason == "tool_calls"
    assert reply.malformed == ()
    (call,) = reply.message.tool_calls
    assert recorder.calls == (call,)
    assert call.id
    assert call.name == "multiply"
    arguments = json.loads(call.arguments)
    assert set(arguments) == {"a", "b"}
    assert all(isinstance(value, int) for value in arguments.values())

    told = Message("tool", "42", tool_call_id=call.id)
    request = ModelRequest("sim", (*messages, reply.message, told), tools=(MULTIPLY,), max_tokens=64, temperature=0.0)
    reply = await send(connection, request)
    assert reply.message.tool_calls == ()
    assert "42" in reply.message.content
    await connection.aclose()


async def test_structured_output_follows_its_schema(connection: Connection) -> None:
    """With a JSON schema the answer is a valid instance of it, and text outside ASCII makes the round trip."""
    words = ["Grüße", "日本 🎉"]
    schema = {
        "type": "object",
        "properties": {"words": {"const": words}, "mood": {"enum": ["good", "bad"]}},
        "required": ["words", "mood"],
        "additionalProperties": False,
    }
    recorder = Recorder()
    request = ModelRequest(
        "sim",
        (Message("user", f"Repeat {', '.join(words)} and tell the mood of: what a lovely day!"),),
        max_tokens=200,
        temperature=0.0,
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}},
    )
    reply = await send(connection, request, recorder)
    answer = json.loads(reply.message.content)
    assert answer["words"] == words
    assert answer["mood"] in ("good", "bad")
    assert recorder.text == reply.message.content
    await connection.aclose()


async def test_cancelling_midway_frees_the_server(subject: Subject, connection: Connection) -> None:
    """Cancelled while streaming, the server stops working on the call, and the connection serves the next."""
    with trio.fail_after(LIMIT_SECONDS), trio.CancelScope() as scope:

        async def leave_at_the_third() -> None:
            if len(recorder.batches) == 3:
                scope.cancel()
            await trio.lowlevel.checkpoint()

        recorder = Recorder(leave_at_the_third)
        await connection.send(long_answer(), recorder)
    assert scope.cancelled_caught
    assert len(recorder.batches) == 3
    await idle(subject)
    assert (await send(connection, say("Say hello."))).message.content
    await connection.aclose()


async def test_cancelling_before_the_first_token_frees_the_server(subject: Subject, connection: Connection) -> None:
    """Cancelled as soon as the request is written, nothing stays behind, and the connection serves the next."""
    with trio.fail_after(LIMIT_SECONDS), trio.CancelScope() as scope:

        class LeaveWhenWritten(Recorder):
            def written(self) -> None:
                super().written()
                scope.cancel()

        recorder = LeaveWhenWritten()
        await connection.send(long_answer(), recorder)
    assert scope.cancelled_caught
    assert recorder.batches == []
    await idle(subject)
    assert (await send(connection, say("Say hello."))).message.content
    await connection.aclose()


async def test_a_request_that_cannot_fit_is_the_requests_fault(subject: Subject, connection: Connection) -> None:
    """Beyond the context the call is refused, by structured code, as no fault of the endpoint; the next one works."""
    recorder = Recorder()
    with pytest.raises(Refused) as caught:
        await send(connection, say("word " * 2 * subject.context), recorder)
    assert caught.value.blame == "request"
    assert (caught.value.status, caught.value.code) == (400, subject.overflow)
    assert not caught.value.endpoint_fault
    assert not caught.value.retryable
    assert recorder.batches == []
    assert (await send(connection, say("Say hello."))).message.content
    await connection.aclose()


async def test_a_slow_reader_stops_the_reading(connection: Connection) -> None:
    """While the reader of deltas waits nothing else is reported and the call doesn't end; then it ends whole."""
    gate, waiting, replies = trio.Event(), trio.Event(), []

    async def slow() -> None:
        waiting.set()
        await gate.wait()

    recorder = Recorder(slow)

    async def call() -> None:
        replies.append(await send(connection, say("Say hello."), recorder))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        with trio.fail_after(LIMIT_SECONDS):
            await waiting.wait()
        seen = list(recorder.order)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert recorder.order == seen
        assert replies == []
        gate.set()
    assert recorder.text == replies[0].message.content
    await connection.aclose()


async def test_connections_work_at_the_same_time(subject: Subject) -> None:
    """Two connections stream at once: each waits, at its first delta, for the other's."""
    first = [trio.Event(), trio.Event()]

    async def one(i: int) -> None:
        async def meet() -> None:
            first[i].set()
            await first[1 - i].wait()

        connection = subject.backend.connect()
        reply = await send(connection, say(f"Say hello {i}."), Recorder(meet))
        assert reply.message.content
        await connection.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, 0)
        nursery.start_soon(one, 1)


async def test_closing_is_idempotent_and_a_closed_connection_reconnects(connection: Connection) -> None:
    """Closing twice does no harm, before the first request and after it, and a later request opens it again."""
    await connection.aclose()
    assert (await send(connection, say("Say hello."))).message.content
    await connection.aclose()
    await connection.aclose()


async def test_what_it_says_of_itself(subject: Subject) -> None:
    """A backend has a name, and what this suite needs is among its capabilities."""
    await trio.lowlevel.checkpoint()
    able = subject.backend.capabilities()
    assert subject.backend.name
    assert able.streams
    assert able.tools
    assert able.json_schema
