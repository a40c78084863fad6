"""Event streams as real servers send them, against the adapter over a real socket."""

import json
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Overloaded, Throttled, Truncated, Unavailable
from agents.messages import Usage
from tests.backends.payloads import (
    COUNTED,
    DONE,
    END,
    HELLO,
    REQUEST,
    STOP,
    USAGE,
    chunk,
    event,
    frame,
    head,
    stream,
    stream_head,
    text,
    trailing,
)
from tests.backends.recorder import Recorder
from tests.backends.upstream import Talk, ask, fail, in_two_reads, upstream


async def test_a_plain_stream_becomes_one_reply_with_truthful_progress() -> None:
    """Connected, written, headers, deltas and usage come in this order, and the deltas of one read come together."""
    reply, recorder = await ask(HELLO)
    assert reply.message.content == "hello"
    assert (reply.finish_reason, reply.usage, reply.model) == ("stop", COUNTED, "m-1")
    assert recorder.order == ["connected", "written", "headers", "deltas", "usage"]
    assert [delta.text for delta in recorder.batches[0][1]] == ["hel", "lo"]


async def test_R01_null_choices_add_nothing_and_still_carry_usage() -> None:
    """A chunk whose choices are null gives no delta; its usage counts; the stream ends as usual."""
    null = event({"choices": None, "usage": USAGE})
    reply, recorder = await ask(stream(text("a"), STOP, null, DONE))
    assert (reply.message.content, reply.usage) == ("a", COUNTED)
    assert recorder.usages == [COUNTED]


@pytest.mark.parametrize(
    "events",
    [
        [event(chunk(finish="stop", usage=USAGE)), DONE],
        [event(chunk(finish="stop", usage=USAGE)), trailing(), DONE],
        [STOP, trailing(), DONE],
        [event(chunk(finish="stop", usage={"prompt_tokens": 10, "completion_tokens": 1})), trailing(), DONE],
    ],
)
async def test_R02_usage_is_counted_once_wherever_it_stands(events: list[bytes]) -> None:
    """On the finishing chunk, on a trailing one or on both, the total is the same."""
    reply, recorder = await ask(stream(text("a"), *events))
    assert reply.usage == COUNTED
    assert recorder.usages[-1] == COUNTED


async def test_R02_running_totals_are_not_added_up() -> None:
    """A server that reports usage in every chunk reports totals; the last one stands."""
    running = [event(chunk(str(n), usage={"prompt_tokens": 9, "completion_tokens": n})) for n in (1, 2, 3)]
    reply, _ = await ask(stream(*running, STOP, DONE))
    assert reply.usage == Usage(input=9, output=3)


async def test_usage_asked_for_and_streaming_always() -> None:
    """The request streams and asks for usage, unless the configuration says that the server knows no such option."""
    async with upstream(HELLO) as server:
        for options in ({}, {"include_usage": False}):
            async with server.connection(**options) as connection:
                await connection.send(REQUEST, Recorder())
        asked, unasked = (received.json for received in server.received)
    assert asked["stream"] is True
    assert asked["stream_options"] == {"include_usage": True}
    assert unasked["stream"] is True
    assert "stream_options" not in unasked


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "queue full", "type": "queue_full", "code": 503}, Overloaded),
        ({"message": "queue full", "code": "queue_full"}, Overloaded),
        ({"message": "slow down", "code": 429}, Throttled),
        ({"message": "slow down", "type": "rate_limit_error"}, Throttled),
        ({"message": "who knows"}, Unavailable),
        ("queue full", Unavailable),
    ],
)
async def test_R04_an_error_object_in_a_200_stream_is_a_failure(error: object, kind: type[ModelError]) -> None:
    """The error's own code decides its kind; no usage is charged and nothing is made up."""
    caught, recorder = await fail(stream(event({"error": error}), DONE))
    assert type(caught) is kind
    assert caught.usage is None
    assert caught.partial == ""
    assert recorder.batches == []


async def test_R04_an_error_after_content_keeps_the_partial_text() -> None:
    """What had been streamed before the error is kept, with the usage reported so far."""
    caught, _ = await fail(stream(text("abc"), trailing(), event({"error": {"code": 500, "message": "oom"}})))
    assert isinstance(caught, Unavailable)
    assert (caught.status, caught.partial, caught.usage) == (500, "abc", COUNTED)


async def test_R04_an_event_named_error_is_a_failure() -> None:
    """The same holds for servers that name the event instead of wrapping the object."""
    caught, _ = await fail(stream(b'event: error\ndata: {"message": "boom", "code": 529}\n\n'))
    assert isinstance(caught, Overloaded)
    assert "boom" in caught.message


async def test_R05_a_clean_end_without_finish_reason_is_truncated() -> None:
    """Two chunks and FIN, with no finish reason, no usage and no end marker, are not an answer."""

    async def script(talk: Talk) -> None:
        await talk.send(head() + text("one ") + text("two"))
        await talk.close()

    caught, recorder = await fail(script)
    assert type(caught) is Truncated
    assert (caught.partial, caught.usage) == ("one two", None)
    assert recorder.text == "one two"


async def test_R05_an_end_marker_does_not_replace_the_finish_reason() -> None:
    """The end marker alone does not say that the answer is whole."""
    caught, _ = await fail(stream(text("one"), DONE))
    assert type(caught) is Truncated
    assert caught.partial == "one"


async def test_R05_a_server_that_says_it_aborted_is_truncated() -> None:
    """A finish reason of `error` or `abort` is no completion either."""
    caught, _ = await fail(stream(text("one"), event(chunk(finish="abort")), DONE))
    assert type(caught) is Truncated


@pytest.mark.parametrize("cut", ["reset", "fin"])
async def test_R05_a_broken_connection_midway_is_truncated(cut: str) -> None:
    """A reset, or an end inside the chunked body, keeps the partial text."""
    proceed = trio.Event()

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("one")))
        await proceed.wait()
        await (talk.abort() if cut == "reset" else talk.close())

    recorder = Recorder(on_deltas=_setter(proceed))
    async with upstream(script) as server, server.connection() as connection:
        with pytest.raises(Truncated) as caught:
            await connection.send(REQUEST, recorder)
    assert caught.value.partial == "one"
    assert f"127.0.0.1:{server.port}" in caught.value.message


def _setter(happened: trio.Event) -> Callable[[], Awaitable[None]]:
    async def set_it() -> None:
        happened.set()
        await trio.lowlevel.checkpoint()

    return set_it


async def test_a_break_after_the_finish_reason_is_still_an_answer() -> None:
    """Once the server said why the answer ended, only its usage can be missing; then it is unknown, not 0."""

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("one")) + frame(STOP))
        await talk.close()

    reply, _ = await ask(script)
    assert (reply.message.content, reply.usage) == ("one", Usage())


async def test_R08_unicode_separators_inside_a_chunk_arrive_intact() -> None:
    """Raw U+2028, U+0085 and form feed in a JSON string cut nothing."""
    content = "a\u2028b\u0085c\x0cd"
    raw = json.dumps(chunk(content), ensure_ascii=False).replace("\\f", "\x0c").encode()
    reply, _ = await ask(stream(b"data: " + raw + b"\n\n", STOP, DONE))
    assert reply.message.content == content


async def test_R09_lines_without_the_optional_space() -> None:
    """The whole stream without spaces after the colons gives the same reply."""
    events = [text("hel"), text("lo"), STOP, trailing(), DONE]
    reply, _ = await ask(stream(*(e.replace(b"data: ", b"data:") for e in events)))
    assert (reply.message.content, reply.usage) == ("hello", COUNTED)


@pytest.mark.parametrize("heartbeat", [b":\n", b":\n\n", b": OPENROUTER PROCESSING\n\n", b"\n"])
async def test_R10_heartbeats_are_liveness_and_no_first_token(heartbeat: bytes) -> None:
    """Each heartbeat that comes alone is reported as alive, before any delta, and changes nothing else."""
    alive = trio.Semaphore(0)

    async def script(talk: Talk) -> None:
        await talk.send(stream_head())
        for _ in range(3):
            await talk.send(frame(heartbeat))
            await alive.acquire()
        await talk.send(frame(text("a")) + frame(STOP) + frame(DONE) + END)

    class Listening(Recorder):
        def alive(self) -> None:
            super().alive()
            alive.release()

    recorder = Listening()
    async with upstream(script) as server, server.connection() as connection:
        reply = await connection.send(REQUEST, recorder)
    assert reply.message.content == "a"
    assert recorder.order == ["connected", "written", "headers", "alive", "alive", "alive", "deltas"]


async def test_a_chunk_without_tokens_is_liveness_only() -> None:
    """A role, an empty string or an event of another kind is no first token."""
    quiet = [event(chunk("", role="assistant")), event(chunk(None)), b"event: ping\ndata: {}\n\n", b"data: null\n\n"]
    reply, recorder = await ask(
        in_two_reads(stream_head() + b"".join(map(frame, quiet)), frame(text("a")) + frame(STOP) + frame(DONE) + END)
    )
    assert reply.message.content == "a"
    assert recorder.order[3:] == ["alive", "deltas"]


async def test_utf8_is_whole_however_the_bytes_are_cut() -> None:
    """A stream sent one byte at a time, HTTP framing included, gives the same text."""
    payload = json.dumps(chunk("a😀é\u2028"), ensure_ascii=False).encode()
    body = stream(b"data: " + payload + b"\n\n", STOP, DONE)

    async def script(talk: Talk) -> None:
        for i in range(len(body)):
            await talk.send(body[i : i + 1])

    reply, _ = await ask(script)
    assert reply.message.content == "a😀é\u2028"


async def test_half_a_surrogate_pair_per_chunk_makes_one_character() -> None:
    """A server that cuts text in UTF-16 sends half an emoji in each of two chunks; a lone half is U+FFFD."""
    halves = [
        b'data: {"choices":[{"delta":{"content":"x\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00y"}}]}\n\n',
    ]
    reply, recorder = await ask(stream(*halves, halves[0], STOP, DONE))
    assert reply.message.content == "x😀yx\ufffd"
    assert recorder.text == reply.message.content


async def test_invalid_utf8_is_replaced_and_the_stream_goes_on() -> None:
    """A stray byte costs one character."""
    reply, _ = await ask(stream(b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n', STOP, DONE))
    assert reply.message.content == "a\ufffdb"


async def test_a_chunk_that_is_no_json_ends_the_stream_with_its_beginning_quoted() -> None:
    """A corrupt chunk means lost text: the answer is not whole, and the message shows what came."""
    caught, _ = await fail(stream(text("abc"), b"data: {oops\n\n", STOP, DONE))
    assert type(caught) is Truncated
    assert "{oops" in caught.message
    assert caught.partial == "abc"


async def test_a_line_without_end_is_refused() -> None:
    """An endless line is cut off at the configured bound and the connection is closed."""
    endless = b"data: " + b"x" * 2000

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("abc")))
        while True:
            await talk.send(frame(endless))

    caught, _ = await fail(script, max_line_bytes=10_000)
    assert type(caught) is Unavailable
    assert "longer than 10000 bytes" in caught.message
    assert caught.partial == "abc"
