"""Answers of Anthropic's API byte by byte: events into deltas, one reply, usage counted once."""

import json

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Overloaded, Refused, Throttled, Truncated, Unavailable
from agents.messages import ToolCall, Usage
from tests.backends.anthropic_payloads import (
    COUNTED,
    ENDING,
    HELLO,
    OPENING,
    PING,
    REQUEST,
    STOP,
    ask,
    block,
    block_stop,
    connection_to,
    delta,
    document,
    error,
    event,
    fail,
    fragment,
    start,
    text,
    thinking,
    tool,
)
from tests.backends.payloads import END, frame, stream, stream_head, whole
from tests.backends.recorder import Recorder
from tests.backends.upstream import Talk, in_two_reads, upstream


async def test_a_stream_becomes_deltas_and_one_reply() -> None:
    """Text, stop reason, model and usage of the reference's own example come out, each once."""
    reply, recorder = await ask(HELLO)
    assert reply.message.content == recorder.text == "hello"
    assert (reply.finish_reason, reply.model, reply.usage) == ("stop", "m-1", COUNTED)
    assert recorder.usages[-1] == COUNTED


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
async def test_any_chunking_gives_the_same_answer(size: int) -> None:
    """Events cut anywhere, with LF or CRLF or CR line ends, mean the same."""
    events = b"".join([*OPENING, text("grüße \u2028 日本"), *ENDING])
    for ends in (b"\n", b"\r\n", b"\r"):
        data = events.replace(b"\n", ends)
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        reply, _ = await ask(stream(*pieces))
        assert reply.message.content == "grüße \u2028 日本"
        assert reply.usage == COUNTED


async def test_pings_comments_and_unknown_events_are_passed_over() -> None:
    """What is no part of the answer changes nothing of it."""
    odd = event("something_new", index=0, delta={"type": "text_delta", "text": "no"})
    unknown = event("content_block_delta", index=0, delta={"type": "sparkle_delta", "text": "no"})
    reply, _ = await ask(stream(*OPENING, PING, b": hi\n\n", odd, text("a"), unknown, PING, text("b"), *ENDING))
    assert reply.message.content == "ab"


async def test_R10_pings_are_signs_of_life_and_no_tokens() -> None:
    """A ping before the first token is reported as life, never as a delta."""
    reply, recorder = await ask(
        in_two_reads(
            stream_head() + frame(start()) + frame(PING), frame(b"".join([block(0, text=""), text("a"), *ENDING])) + END
        )
    )
    assert reply.message.content == "a"
    assert recorder.order[:4] == ["connected", "written", "headers", "alive"]
    assert recorder.order.count("deltas") == 1


async def test_thinking_is_reasoning() -> None:
    """Thinking deltas become reasoning; signatures and redacted blocks add nothing."""
    signature = event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "EqQB"})
    reply, recorder = await ask(
        stream(
            start(),
            block(0, "thinking", thinking="", signature=""),
            thinking("so "),
            thinking("then"),
            signature,
            block_stop(0),
            block(1, "redacted_thinking", data="xyz"),
            block_stop(1),
            block(2, text=""),
            text("yes", 2),
            block_stop(2),
            delta(),
            STOP,
        )
    )
    assert (reply.message.content, reply.message.reasoning) == ("yes", "so then")
    assert "".join(d.reasoning for _, batch in recorder.batches for d in batch) == "so then"


async def test_tool_calls_come_in_fragments() -> None:
    """Two calls beside a text are numbered from 0, with their ids, names and arguments as they were written."""
    reply, recorder = await ask(
        stream(
            start(),
            block(0, text=""),
            text("I look."),
            block_stop(0),
            tool(1, "toolu_a", "look"),
            fragment("", 1),
            fragment('{"at": "no', 1),
            fragment('rth"}', 1),
            block_stop(1),
            tool(2, "toolu_b", "wait"),
            block_stop(2),
            delta("tool_use", output_tokens=30),
            STOP,
        )
    )
    calls = (ToolCall("toolu_a", "look", '{"at": "north"}'), ToolCall("toolu_b", "wait", "{}"))
    assert reply.message.tool_calls == calls
    assert (reply.finish_reason, reply.malformed) == ("tool_calls", ())
    assert [c.arguments for c in recorder.calls] == ['{"at": "north"}', ""]


async def test_R17_arguments_that_are_no_object_are_flagged_and_kept() -> None:
    """Arguments cut short by the output limit stay as they are, and the reply names the call."""
    reply, _ = await ask(stream(start(), tool(0), fragment('{"at": "no'), block_stop(), delta("max_tokens"), STOP))
    assert reply.message.tool_calls[0].arguments == '{"at": "no'
    assert reply.malformed == ("toolu_1",)
    assert reply.finish_reason == "length"


async def test_R15_a_call_without_an_id_gets_one() -> None:
    """Ids answer calls, so a missing or repeated one is made up."""
    reply, _ = await ask(
        stream(start(), tool(0, ""), block_stop(0), tool(1, "x"), tool(2, "x"), delta("tool_use"), STOP)
    )
    ids = [call.id for call in reply.message.tool_calls]
    assert len(set(ids)) == 3
    assert all(ids)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "content_filter"),
        ("tool_use", "stop"),
        ("some_new_reason", "stop"),
    ],
)
async def test_stop_reasons(reason: str, finish: str) -> None:
    """Each stop reason has its finish reason; a tool use without a tool call is a plain stop."""
    reply, _ = await ask(stream(*OPENING, text("a"), block_stop(), delta(reason), STOP))
    assert reply.finish_reason == finish


@pytest.mark.parametrize(
    ("at_start", "at_end", "counted"),
    [
        ({"input_tokens": 7, "output_tokens": 1}, {"output_tokens": 9}, Usage(input=7, output=9)),
        (
            {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1},
            {"input_tokens": 8, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0, "output_tokens": 9},
            Usage(input=8, cached=5, cache_write=0, output=9),
        ),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 7, "output_tokens": 9}, Usage(input=7, output=9)),
        ({"input_tokens": 7, "output_tokens": 0}, {"input_tokens": 0, "output_tokens": 9}, Usage(input=7, output=9)),
        ({"input_tokens": None, "output_tokens": 1}, {"output_tokens": 9}, Usage(output=9)),
    ],
)
async def test_usage_is_the_last_word_on_each_kind_of_token(
    at_start: dict[str, object], at_end: dict[str, object], counted: Usage
) -> None:
    """Reports are cumulative: nothing is added up, nothing is unlearned, and null is unknown."""
    reply, _ = await ask(stream(start(**at_start), block(0, text=""), text("a"), delta(**at_end), STOP))
    assert reply.usage == counted


async def test_R05_a_stream_without_its_last_event_is_truncated() -> None:
    """An end before `message_stop` keeps the text and the input, and never passes for an answer."""
    for events in ((*OPENING, text("half")), (*OPENING, text("half"), *ENDING[:-1])):
        caught, recorder = await fail(stream(*events))
        assert isinstance(caught, Truncated)
        assert caught.partial == recorder.text == "half"
        assert caught.usage is not None
        assert caught.usage.input == 7
    assert (await fail(stream(*OPENING, text("half"))))[0].usage == Usage(input=7, cached=3, cache_write=2)


async def test_a_broken_connection_is_truncated() -> None:
    """A reset in the middle is the same as an early end."""

    async def breaks(talk: Talk) -> None:
        await talk.send(stream_head() + frame(b"".join(OPENING) + text("half")))
        await talk.abort()

    caught, _ = await fail(breaks)
    assert isinstance(caught, Truncated)


@pytest.mark.parametrize(
    ("kind", "expected", "status"),
    [
        ("overloaded_error", Overloaded, 529),
        ("rate_limit_error", Throttled, 429),
        ("api_error", Unavailable, 500),
        ("timeout_error", Unavailable, 504),
        ("invalid_request_error", Refused, 400),
        ("some_new_error", Unavailable, None),
    ],
)
async def test_R04_an_error_inside_a_stream_is_that_error(
    kind: str, expected: type[ModelError], status: int | None
) -> None:
    """An error event ends the call by its type, with the text that had come and no finish reason made up."""
    caught, _ = await fail(stream(*OPENING, text("half"), error(kind)))
    assert isinstance(caught, expected)
    assert (caught.status, caught.code, caught.partial) == (status, kind, "half")
    assert caught.usage == Usage(input=7, cached=3, cache_write=2)


async def test_an_error_without_an_event_name_is_an_error_too() -> None:
    """The data's own type says enough."""
    data = b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    caught, _ = await fail(stream(data))
    assert isinstance(caught, Overloaded)


async def test_an_answer_in_one_piece_is_understood() -> None:
    """A server that ignores `stream` gives a reply of the same shape."""
    content = (
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"at": 1.50}},
    )
    reply, recorder = await ask(whole(200, json.dumps(document(*content, stop_reason="tool_use")).encode()))
    assert (reply.message.content, reply.message.reasoning) == ("I look.", "hm")
    assert reply.message.tool_calls == (ToolCall("toolu_a", "look", '{"at": 1.5}'),)
    assert (reply.finish_reason, reply.usage) == ("tool_calls", COUNTED)
    assert recorder.calls == reply.message.tool_calls


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"choices": []}', "no message"),
        (b"<html>hello</html>", "no event stream"),
        (b'{"type": "message", ', "no JSON"),
        (b"", "an empty body"),
    ],
)
async def test_a_200_that_is_no_answer_is_unavailable_and_says_what_came(body: bytes, words: str) -> None:
    """A proxy's page, another dialect, or nothing at all is no answer."""
    caught, _ = await fail(whole(200, body))
    assert isinstance(caught, Unavailable)
    assert words in caught.message


async def test_an_error_as_a_200_document_is_that_error() -> None:
    """The error's own type decides, not the status."""
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    caught, _ = await fail(whole(200, body))
    assert isinstance(caught, Overloaded)


async def test_events_that_make_little_sense_lose_only_what_makes_none() -> None:
    """Nulls and wrong kinds in known places, lone surrogates and events that are no objects crash nothing."""
    odd = (
        event("content_block_delta", index="zero", delta={"type": "text_delta", "text": "a\ud83d"}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "\udca7b"}),
        event("content_block_delta", index=0, delta=None),
        event("content_block_start", index=5, content_block=[]),
        b"data: []\n\n",
        b"data:\n\n",
        event("message_delta", delta={"stop_reason": 5}, usage={"output_tokens": "four", "input_tokens": 9}),
    )
    reply, _ = await ask(stream(*OPENING, *odd, STOP))
    assert reply.message.content == "a💧b"
    assert reply.usage == Usage(input=9, cached=3, cache_write=2)


async def test_an_event_that_is_no_json_is_a_broken_answer() -> None:
    """What cannot be read may have been part of the answer."""
    caught, _ = await fail(stream(*OPENING, text("a"), b"event: content_block_delta\ndata: {oops\n\n", *ENDING))
    assert isinstance(caught, Truncated)
    assert caught.partial == "a"


async def test_cancelling_aborts_the_request_at_the_provider() -> None:
    """A caller that leaves midway is seen by the server as a closed connection, and the next call works."""
    left = trio.Event()

    async def endless(talk: Talk) -> None:
        await talk.send(stream_head() + frame(b"".join(OPENING) + text("a")))
        await talk.client_left()
        left.set()

    async with upstream(endless, HELLO) as server, connection_to(server) as connection:
        with trio.CancelScope() as scope:

            async def leave() -> None:
                scope.cancel()
                await trio.lowlevel.checkpoint()

            await connection.send(REQUEST, Recorder(leave))
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await left.wait()
        reply = await connection.send(REQUEST, Recorder())
    assert reply.message.content == "hello"
    assert server.accepted == 2


async def test_a_connection_is_kept_between_requests() -> None:
    """The body's end is read, so that the next request goes out on the same socket."""
    async with upstream(HELLO) as server, connection_to(server) as connection:
        for _ in range(3):
            await connection.send(REQUEST, Recorder())
    assert (server.accepted, len(server.received)) == (1, 3)
