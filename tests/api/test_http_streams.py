"""Answers that go on: how they begin, wait, fail and end."""

from collections.abc import AsyncGenerator

import pytest
import structlog
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from agents.errors import QueueFull, Unavailable
from orchestrator.api.errors import BadRequest
from orchestrator.api.streams import EventStream, LineStream, ServerEvent, Stream, last_event_id
from orchestrator.api.surface import HttpConfig, Surface, attach
from orchestrator.backends.sse import SSEParser
from tests.api.surface_rig import Exchange


def over(stream: Stream, surface: Surface | None = None, method: str = "GET") -> Exchange:
    async def app(scope, receive, send):
        attach(scope, surface or Surface(HttpConfig(heartbeat_seconds=15)))
        await stream(scope, receive, send)

    return Exchange(app, method, "/")


class Source:
    """Yields items at their times, then ends, fails, or says nothing for ever."""

    def __init__(self, *items: tuple[float, bytes], end: Exception | str | None = None) -> None:
        self.items = items
        self.end = end
        self.closed = 0

    async def bytes(self) -> AsyncGenerator[bytes, None]:
        try:
            for at, item in self.items:
                await trio.sleep_until(at)
                yield item
            if self.end == "silence":
                await trio.sleep_forever()
            if isinstance(self.end, Exception):
                raise self.end
        finally:
            self.closed += 1

    async def events(self) -> AsyncGenerator[ServerEvent, None]:
        source = self.bytes()
        try:
            async for item in source:
                yield ServerEvent(item, id=str(len(item)))
        finally:
            await source.aclose()


async def test_events_go_out_as_they_come_and_the_body_ends_with_them(autojump_clock):
    """One write per event, and a whole body when the generator ends."""
    source = Source((1, b"1"), (2, b"22"))
    exchange = await over(EventStream(source.events())).run()
    assert [message.get("body") for message in exchange.sent[1:]] == [
        b"id: 1\ndata: 1\n\n",
        b"id: 2\ndata: 22\n\n",
        b"",
    ]
    assert exchange.whole
    assert source.closed == 1


async def test_a_silence_is_broken_by_comments(autojump_clock):
    """After every 15 s without an event a comment goes out; a stream that speaks needs none."""
    source = Source(*((at, b"1") for at in range(1, 20)), (65, b"1"))
    exchange = await over(EventStream(source.events())).run()
    bodies = [message.get("body") for message in exchange.sent[1:]]
    assert bodies.count(b":\n\n") == 3
    assert bodies[-5:-2] == [b":\n\n"] * 3


@pytest.mark.parametrize("kind", [EventStream, LineStream])
async def test_a_client_that_leaves_a_silent_stream_ends_it(kind, autojump_clock):
    """Nothing has to be sent for a departure to be noticed; the generator is closed."""
    source = Source((0, b"1"), end="silence")
    exchange = over(kind(source.events() if kind is EventStream else source.bytes()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.run)
        await trio.testing.wait_all_tasks_blocked()
        exchange.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert exchange.ended.is_set()
        assert source.closed == 1


async def test_a_closing_surface_tells_event_streams(autojump_clock):
    """At the surface's end the last event is `closing`, and the body is whole."""
    surface, source = Surface(), Source((0, b"1"), end="silence")
    exchange = over(EventStream(source.events()), surface)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.run)
        await trio.sleep(1)
        surface.closing.set()
    assert exchange.events[-1][0] == "closing"
    assert exchange.whole
    assert source.closed == 1


@pytest.mark.parametrize("why", ["closing", "failure"])
async def test_lines_that_are_cut_off_do_not_look_whole(why, autojump_clock):
    """JSON Lines that end early, for whatever reason, lack the end of their body."""
    surface = Surface()
    source = Source((0, b"1\n"), (5, b"2\n"), end=Unavailable("lost") if why == "failure" else "silence")
    exchange = over(LineStream(source.bytes()), surface)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.run)
        await trio.sleep(10)
        if why == "closing":
            surface.closing.set()
    assert exchange.body == b"1\n2\n"
    assert not exchange.whole


async def test_a_failure_within_events_is_an_event(autojump_clock):
    """Once events have gone out, an error of the taxonomy is the last of them."""
    exchange = await over(EventStream(Source((0, b"1"), (1, b"2"), end=Unavailable("lost")).events())).run()
    assert exchange.events[-1] == ("error", {"error": {"kind": "unavailable", "message": "lost"}})
    assert exchange.whole


async def test_an_unexpected_failure_within_events_tells_nothing(autojump_clock):
    """A fault of ours ends the stream without details; the log has them."""
    with structlog.testing.capture_logs() as logs:
        exchange = await over(EventStream(Source((1, b"1"), end=ValueError("hunter2")).events())).run()
    assert exchange.events[-1][1]["error"]["kind"] == "internal_error"
    assert b"hunter2" not in exchange.body
    assert len(logs) == 1


@pytest.mark.parametrize(("after", "status"), [(0.4, 429), (0.6, 200)])
async def test_a_failure_that_comes_at_once_has_its_own_status(after, status, autojump_clock):
    """Within its patience a stream has not begun, so a refusal is told as a status."""

    async def refused() -> AsyncGenerator[ServerEvent, None]:
        await trio.sleep(after)
        raise QueueFull("full", retry_after=3)
        yield

    exchange = await over(EventStream(refused(), patience=0.5)).run()
    assert exchange.status == status
    if status == 429:
        assert (exchange.error["kind"], exchange.header("retry-after")) == ("queue_full", "3")
    else:
        assert exchange.events[-1][1]["error"]["kind"] == "queue_full"


async def test_asking_for_the_head_alone_gets_the_head_alone(autojump_clock):
    """HEAD does not begin a stream."""
    source = Source((0, b"1"), end="silence")
    exchange = await over(EventStream(source.events()), method="HEAD").run()
    assert (exchange.status, exchange.body, source.closed) == (200, b"", 0)


@given(st.binary(min_size=1).filter(lambda data: b"\x00" not in data), st.sampled_from(["", "delta"]))
def test_R08_only_line_ends_end_a_line_of_an_event(data, name):
    """Any text comes back from a parser as it went in, whatever separators Unicode has."""
    text = data.decode("latin-1").encode()
    parsed = [*SSEParser().feed(ServerEvent(text, name, "7").encode())]
    assert len(parsed) == 1
    assert parsed[0].data == text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@pytest.mark.parametrize(("said", "number"), [("", 0), ("7", 7), (" 12 ", 12)])
def test_a_returning_client_says_where_it_was(said, number):
    """`Last-Event-ID` is a number of this stream; without it a stream begins at its start."""
    assert last_event_id(Request({"type": "http", "headers": [(b"last-event-id", said.encode())]})) == number


@pytest.mark.parametrize("said", ["x", "-1", "1e3", "9" * 30, "²"])
def test_an_id_that_is_none_is_refused(said):
    """An id that this stream never gave is refused instead of taken for the start."""
    with pytest.raises(BadRequest, match="Last-Event-ID"):
        last_event_id(Request({"type": "http", "headers": [(b"last-event-id", said.encode("latin-1"))]}))
