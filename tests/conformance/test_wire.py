"""What every backend does with a program's own request: the same questions to each, in each dialect."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from agents.errors import Refused
from agents.messages import Dialect, ModelReply, ModelRequest
from orchestrator.backends.base import Connection
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.base import Untranslatable
from tests.backends.recorder import Recorder
from tests.backends.relay import HI_EMBEDDINGS, data_of, events_of, tokens_of, wired
from tests.conformance.subjects import Subject

LIMIT_SECONDS = 60
DIALECTS: list[Dialect] = ["chat", "responses", "messages"]
LONG = "Write a long story about a river, a mill and the people who live there."
BOUND = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}


def say(dialect: Dialect, text: str = "Say hello.", max_tokens: int = 16, **more: object) -> ModelRequest:
    turns = [{"role": "user", "content": text}]
    given = {"input": turns} if dialect == "responses" else {"messages": turns}
    return wired(
        {"model": "sim", "stream": True, **given, BOUND[dialect]: max_tokens, "temperature": 0.0, **more}, dialect
    )


@pytest.fixture
async def connection(subject: Subject) -> Connection:
    return subject.backend.connect()


async def send(connection: Connection, request: ModelRequest, recorder: Recorder | None = None) -> ModelReply:
    with trio.fail_after(LIMIT_SECONDS):
        return await connection.send(request, recorder or Recorder())


def document(dialect: Dialect, recorder: Recorder) -> Any:
    whole = assembler(dialect)
    for event in events_of(recorder):
        whole.feed(event)
    return json.loads(whole.document())


def text_of(dialect: Dialect, found: Any) -> str:
    if dialect == "chat":
        text: str = found["choices"][0]["message"]["content"]
    elif dialect == "responses":
        text = found["output"][0]["content"][0]["text"]
    else:
        text = found["content"][0]["text"]
    return text


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_in_the_programs_dialect(dialect: Dialect, connection: Connection) -> None:
    """Its events add up to a whole document; the reply knows the reason and what it cost, reported once in the end."""
    recorder = Recorder()
    reply = await send(connection, say(dialect), recorder)
    assert text_of(dialect, document(dialect, recorder)).strip()
    assert reply.finish_reason in ("stop", "length")
    assert reply.usage.all_input
    assert reply.usage.output
    assert 0 < reply.usage.output <= 16
    assert recorder.usages[-1] == reply.usage
    assert 0 < tokens_of(recorder) <= reply.usage.output + 2
    assert all(delta.text == "" for _, batch in recorder.batches for delta in batch)
    await connection.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_progress_comes_in_order(dialect: Dialect, connection: Connection) -> None:
    """Connected, written, headers, then batches, of which the first brings the first token."""
    for _ in range(2):
        recorder = Recorder()
        await send(connection, say(dialect), recorder)
        steps = [step for step in recorder.order if step not in ("alive", "usage")]
        assert steps[:4] == ["connected", "written", "headers", "deltas"]
        assert set(steps[4:]) <= {"deltas"}
        assert sum(delta.tokens for delta in recorder.batches[0][1]) > 0
    await connection.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_max_tokens_is_the_programs_own(dialect: Dialect, connection: Connection) -> None:
    """An answer that would be longer is cut where the program said, and says so in the program's words."""
    recorder = Recorder()
    reply = await send(connection, say(dialect, LONG, 8), recorder)
    assert (reply.finish_reason, reply.usage.output) == ("length", 8)
    found = document(dialect, recorder)
    if dialect == "chat":
        assert found["choices"][0]["finish_reason"] == "length"
    elif dialect == "responses":
        assert (found["status"], found["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    else:
        assert found["stop_reason"] == "max_tokens"
    await connection.aclose()


async def test_members_that_nobody_here_knows_reach_the_server_and_return(
    subject: Subject, connection: Connection
) -> None:
    """Log probabilities are asked for and come back in every chunk, though no code here knows of them.

    Where the server's dialect has no words for them the program is told so, and by name.
    """
    recorder, request = Recorder(), say("chat", logprobs=True, top_logprobs=2)
    if "chat" not in subject.backend.capabilities().dialects:
        with pytest.raises(Untranslatable, match="logprobs"):
            await send(connection, request, recorder)
        return
    await send(connection, request, recorder)
    found = [choice for data in data_of(recorder) for choice in json.loads(data)["choices"]]
    assert any(choice.get("logprobs") for choice in found)
    assert document("chat", recorder)["choices"][0]["logprobs"]["content"]
    await connection.aclose()


@pytest.mark.parametrize("asked", [True, False])
async def test_usage_is_told_exactly_if_it_was_asked_for(asked: bool, connection: Connection) -> None:
    """The program that asks gets one last chunk with it; the one that doesn't gets none, and it is counted anyway."""
    recorder = Recorder()
    reply = await send(connection, say("chat", stream_options={"include_usage": asked}), recorder)
    chunks = [json.loads(data) for data in data_of(recorder)]
    assert [bool(chunk.get("usage")) for chunk in chunks].count(True) == asked
    assert bool(chunks[-1].get("usage")) == asked
    assert reply.usage.total
    await connection.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_cancelling_midway_frees_the_server(dialect: Dialect, subject: Subject, connection: Connection) -> None:
    """Cancelled while streaming, the server stops working on the call, and the connection serves the next."""
    with trio.fail_after(LIMIT_SECONDS), trio.CancelScope() as scope:

        async def leave_at_the_third() -> None:
            if len(recorder.batches) == 3:
                scope.cancel()
            await trio.lowlevel.checkpoint()

        recorder = Recorder(leave_at_the_third)
        await connection.send(say(dialect, LONG, 300), recorder)
    assert scope.cancelled_caught
    assert len(recorder.batches) == 3
    with trio.fail_after(5):
        while await subject.busy():  # noqa: ASYNC110
            await trio.sleep(0.01)
    recorder = Recorder()
    await send(connection, say(dialect), recorder)
    assert events_of(recorder)
    await connection.aclose()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_that_cannot_fit_is_the_requests_fault(
    dialect: Dialect, subject: Subject, connection: Connection
) -> None:
    """Beyond the context the call is refused before anything of an answer has gone out; the next one works."""
    recorder = Recorder()
    with pytest.raises(Refused) as caught:
        await send(connection, say(dialect, "word " * 2 * subject.context), recorder)
    assert (caught.value.status, caught.value.code) == (400, subject.overflow)
    assert not caught.value.endpoint_fault
    assert recorder.batches == []
    assert (await send(connection, say(dialect))).usage.output
    await connection.aclose()


async def test_a_slow_reader_stops_the_reading(connection: Connection) -> None:
    """While the reader of events waits nothing else is reported and the call doesn't end; then it ends whole."""
    gate, waiting, replies = trio.Event(), trio.Event(), []

    async def slow() -> None:
        waiting.set()
        await gate.wait()

    recorder = Recorder(slow)

    async def call() -> None:
        replies.append(await send(connection, say("chat"), recorder))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        with trio.fail_after(LIMIT_SECONDS):
            await waiting.wait()
        seen = list(recorder.order)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert recorder.order == seen
        assert replies == []
        gate.set()
    assert text_of("chat", document("chat", recorder))
    await connection.aclose()


async def test_embeddings_come_as_a_document_or_not_at_all(subject: Subject, connection: Connection) -> None:
    """A backend that has them answers with the server's own document and its cost; another refuses, and says so."""
    recorder = Recorder()
    if "embeddings" not in subject.backend.capabilities().dialects:
        with pytest.raises(Refused, match="embeddings"):
            await send(connection, wired(HI_EMBEDDINGS, "embeddings"), recorder)
    else:
        reply = await send(connection, wired(HI_EMBEDDINGS, "embeddings"), recorder)
        assert len(json.loads(reply.wire)["data"]) == 2
        assert reply.usage.input
        assert reply.usage.output == 0
    assert recorder.batches == []
    await connection.aclose()


async def test_a_count_of_tokens_is_a_document(connection: Connection) -> None:
    """Counted or estimated, it is a number of its own, costs nothing and is no answer."""
    recorder = Recorder()
    body = {"model": "sim", "messages": [{"role": "user", "content": "How many are these?"}]}
    reply = await send(connection, wired(body, "count_tokens"), recorder)
    assert json.loads(reply.wire)["input_tokens"] > 0
    assert reply.usage.total == 0
    assert recorder.batches == []
    await connection.aclose()


async def test_it_says_which_dialects_are_its_own(subject: Subject) -> None:
    """Every backend has one that answers are streamed in."""
    await trio.lowlevel.checkpoint()
    assert subject.backend.capabilities().dialects & set(DIALECTS)
