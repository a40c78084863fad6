"""Streams that break: whatever happens to the connection, what comes is whole, in order and once."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2
import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.client.client import Client
from orchestrator.client.errors import DaemonLost, NoDaemon, Refusal
from orchestrator.client.patience import GONE_SECONDS
from tests.client.fake_daemon import (
    Answer,
    Broken,
    FakeDaemon,
    answered,
    job_view,
    refused,
    run_detail,
    sse,
    streamed,
    talking,
    three_events,
)


async def everything(stream: AsyncGenerator[tuple[int, bytes], None]) -> list[int]:
    async with aclosing(stream) as items:
        return [number async for number, _ in items]


async def test_events_go_on_where_the_connection_broke(autojump_clock: trio.abc.Clock) -> None:
    """Broken in the middle of an event, refused, then back: every event once, asked for by Last-Event-ID, told once."""
    daemon, told = FakeDaemon(), list[str]()
    first, second, third = (sse(number, event) for number, event in enumerate(three_events(), 1))
    daemon.on(
        "GET",
        "/api/runs/r/events",
        streamed(first, second[:10], Broken()),
        httpx2.ConnectError("refused"),
        httpx2.ConnectError("refused"),
        streamed(second, third),
    )
    daemon.on("GET", "/api/runs/r", answered(run_detail()))
    async with talking(daemon, told) as client:
        assert await everything(client.events("r")) == [1, 2, 3]
    asked = [request.headers.get("last-event-id") for request in daemon.asked if request.url.path.endswith("/events")]
    assert asked == [None, "1", "1", "1"]
    assert [line.partition(";")[0] for line in told] == [
        "the connection to the daemon at http://daemon.test:8700 broke off",
        "the daemon is back",
    ]


async def test_a_daemon_that_was_never_there_is_not_looked_for(autojump_clock: trio.abc.Clock) -> None:
    """A stream whose first connection is refused fails at once."""
    daemon = FakeDaemon()
    daemon.down = True
    async with talking(daemon) as client:
        with pytest.raises(NoDaemon):
            await everything(client.events("r"))
    assert trio.current_time() == 0


async def test_a_daemon_that_stays_away_is_given_up(autojump_clock: trio.abc.Clock) -> None:
    """Two minutes after it went, and with few tries, the stream ends in an error."""
    daemon = FakeDaemon()

    async def die(request: httpx2.Request) -> Answer:
        daemon.down = True
        return streamed(sse(1, three_events()[0]), Broken())

    daemon.on("GET", "/api/runs/r/events", die)
    async with talking(daemon) as client:
        with pytest.raises(NoDaemon):
            await everything(client.events("r"))
    assert GONE_SECONDS - 3 <= trio.current_time() <= GONE_SECONDS
    assert len(daemon.asked) < 50


async def test_a_daemon_that_comes_and_goes_is_told_once(autojump_clock: trio.abc.Clock) -> None:
    """Connections that break again and again within seconds are one outage, with growing pauses, and then the end."""
    daemon, told = FakeDaemon(), list[str]()
    daemon.on("GET", "/api/runs/r/events", *[streamed(Broken()) for _ in range(200)])
    async with talking(daemon, told) as client:
        with pytest.raises(DaemonLost):
            await everything(client.events("r"))
    assert len(told) == 2
    assert len(daemon.asked) < 50


async def test_a_daemon_that_says_it_is_ending_is_waited_for(autojump_clock: trio.abc.Clock) -> None:
    """The closing event, and 503 while it starts, are no end of the stream."""
    daemon = FakeDaemon()
    first, second, third = (sse(number, event) for number, event in enumerate(three_events(), 1))
    daemon.on(
        "GET",
        "/api/runs/r/events",
        streamed(first, b"event: closing\ndata: {}\n\n"),
        refused(503, "draining", "the daemon is ending", retry_after=20.0),
        streamed(second, third),
    )
    daemon.on("GET", "/api/runs/r", answered(run_detail()))
    async with talking(daemon) as client:
        assert await everything(client.events("r")) == [1, 2, 3]
    assert trio.current_time() >= 20


async def test_an_error_in_the_stream_is_the_streams_error() -> None:
    """An error that the daemon meets while it streams arrives as what it is."""
    daemon = FakeDaemon()
    error = b'event: error\ndata: {"error": {"kind": "internal_error", "message": "something broke"}}\n\n'
    daemon.on("GET", "/api/runs/r/events", streamed(error))
    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="something broke"):
            await everything(client.events("r"))


async def test_a_run_the_next_daemon_does_not_know_ends_its_stream(autojump_clock: trio.abc.Clock) -> None:
    """After a restart that lost the run, the stream ends in `unknown_run` instead of waiting for ever."""
    daemon = FakeDaemon()
    daemon.on(
        "GET",
        "/api/runs/r/events",
        streamed(sse(1, three_events()[0]), Broken()),
        refused(404, "unknown_run", "there is no run r"),
    )
    async with talking(daemon) as client:
        with pytest.raises(Refusal) as caught:
            await everything(client.events("r"))
    assert caught.value.kind == "unknown_run"


async def test_events_of_a_later_run_keep_their_numbers(autojump_clock: trio.abc.Clock) -> None:
    """Numbers are the session's: a run behind others is followed over a break to its closing event and no further."""
    daemon = FakeDaemon()
    first, second, third = (sse(number, event) for number, event in enumerate(three_events(), 41))
    daemon.on("GET", "/api/runs/r/events", streamed(first), streamed(second, Broken()), streamed(second, third))
    daemon.on("GET", "/api/runs/r", answered(run_detail(reason=None)))
    async with talking(daemon) as client:
        assert await everything(client.events("r")) == [41, 42, 43]
    asked = [request.headers.get("last-event-id") for request in daemon.asked if request.url.path.endswith("/events")]
    assert asked == [None, "41", "42"]
    assert daemon.count("GET", "/api/runs/r") == 1


async def test_what_a_run_said_last_is_not_missed(autojump_clock: trio.abc.Clock) -> None:
    """A stream that ends just before its run does is opened once more, although the run has ended by then."""
    daemon = FakeDaemon()
    pieces = [sse(number, event) for number, event in enumerate(three_events(), 41)]
    daemon.on("GET", "/api/runs/r/events", streamed(*pieces[:2]), streamed(pieces[2]))
    daemon.on("GET", "/api/runs/r", answered(run_detail()))
    async with talking(daemon) as client:
        assert await everything(client.events("r")) == [41, 42, 43]


async def test_a_run_whose_log_was_lost_ends_its_stream() -> None:
    """A run that has ended without a closing event, since its log was lost, is not waited for."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r/events", streamed(sse(1, three_events()[0])))
    daemon.on("GET", "/api/runs/r", answered(run_detail(events=1)))
    async with talking(daemon) as client:
        assert await everything(client.events("r")) == [1]


async def test_a_stream_that_ends_before_its_run_is_opened_again(autojump_clock: trio.abc.Clock) -> None:
    """A clean end in mid-run is no end of the run."""
    daemon = FakeDaemon()
    pieces = [sse(number, event) for number, event in enumerate(three_events(), 1)]
    daemon.on("GET", "/api/runs/r/events", streamed(pieces[0]), streamed(*pieces[1:]))
    daemon.on("GET", "/api/runs/r", answered(run_detail(reason=None)), answered(run_detail()))
    async with talking(daemon) as client:
        assert await everything(client.events("r")) == [1, 2, 3]


async def test_silence_between_results_is_no_trouble(autojump_clock: trio.abc.Clock) -> None:
    """A minute without a result opens the stream again where it stood, and nobody is told of it."""
    daemon, told = FakeDaemon(), list[str]()
    daemon.on("GET", "/api/jobs/j/results", streamed(b"one\n", httpx2.ReadTimeout("quiet")), streamed(b"two\n"))
    daemon.on("GET", "/api/jobs/j", answered(job_view("done", result_bytes=8)))
    async with talking(daemon, told) as client:
        assert await results(client) == b"one\ntwo\n"
    assert told == []
    assert daemon.asked[1].url.params["offset"] == "4"


async def test_a_daemon_that_accepts_and_says_nothing_is_given_up(autojump_clock: trio.abc.Clock) -> None:
    """Silence before the head of the results is trouble, and ends."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/jobs/j", answered(job_view()))

    async def hang(request: httpx2.Request) -> Answer:
        await trio.sleep(60)
        raise httpx2.ReadTimeout("quiet")

    daemon.on("GET", "/api/jobs/j/results", hang)
    async with talking(daemon) as client:
        await client.job("j")
        with pytest.raises(DaemonLost):
            await results(client)
    assert trio.current_time() < 300


async def results(client: Client, offset: int = 0) -> bytes:
    async with aclosing(client.results("j", offset, follow=True)) as blocks:
        return b"".join([block async for block in blocks])


LINES = b"".join(b'{"ordinal":%d,"value":"\xc3\xa9"}\n' % number for number in range(1, 40))


@given(st.lists(st.integers(0, len(LINES)), max_size=6).map(sorted), st.data())
def test_results_are_whole_wherever_they_are_cut(cuts: list[int], data: st.DataObject) -> None:
    """However often and wherever the connection breaks, the blocks joined are the daemon's bytes."""
    refusals = data.draw(st.lists(st.booleans(), min_size=len(cuts), max_size=len(cuts)))

    async def main() -> None:
        daemon = FakeDaemon()
        ends = list(zip(cuts, refusals, strict=True))

        async def serve(request: httpx2.Request) -> Answer:
            start = int(request.url.params["offset"])
            while ends:
                end, refuse = ends.pop(0)
                if refuse:
                    raise httpx2.ConnectError("refused")
                if end >= start:
                    return streamed(LINES[start:end], Broken())
            return streamed(LINES[start:])

        daemon.on("GET", "/api/jobs/j/results", serve)
        daemon.on("GET", "/api/jobs/j", answered(job_view("done", result_bytes=len(LINES))))
        async with talking(daemon) as client:
            await client.job("j")
            assert await results(client) == LINES

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_job_that_goes_on_is_followed_further(autojump_clock: trio.abc.Clock) -> None:
    """Results that end while the job is live, as in a drain, are asked for again from where they ended."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/jobs/j/results", streamed(b"one\n"), streamed(b"two\n"))
    daemon.on("GET", "/api/jobs/j", answered(job_view(result_bytes=4)), answered(job_view("done", result_bytes=8)))
    async with talking(daemon) as client:
        assert await results(client) == b"one\ntwo\n"


def told(view: object) -> bytes:
    return b"event: job\ndata: %s\n\n" % msgspec.json.encode(view)


async def test_a_watched_job_is_seen_to_its_end(autojump_clock: trio.abc.Clock) -> None:
    """Views come until the job has ended, over a connection that breaks."""
    daemon = FakeDaemon()
    daemon.on(
        "GET",
        "/api/jobs/j/events",
        streamed(told(job_view(done=1)), Broken()),
        streamed(told(job_view(done=2)), told(job_view("done", done=3))),
    )
    async with talking(daemon) as client, aclosing(client.watch_job("j")) as views:
        assert [view.done async for view in views] == [1, 2, 3]


async def test_a_job_is_watched_on_when_a_daemon_has_just_begun(autojump_clock: trio.testing.MockClock) -> None:
    """It still has the job as interrupted, says so and no more of it; a moment later it goes on, and that is seen."""
    daemon = FakeDaemon()
    daemon.on(
        "GET",
        "/api/jobs/j/events",
        streamed(told(job_view("interrupted", done=1))),
        streamed(told(job_view("interrupted", done=1))),
        streamed(told(job_view(done=2)), told(job_view("done", done=3))),
    )
    async with talking(daemon) as client, aclosing(client.watch_job("j")) as views:
        assert [view.done async for view in views] == [1, 1, 2, 3]


async def test_leaving_a_stream_closes_its_connection() -> None:
    """A reader that has enough leaves no response open behind it."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r/events", streamed(*[sse(number, three_events()[0]) for number in range(1, 100)]))
    async with talking(daemon) as client, aclosing(client.events("r")) as events:
        await anext(events)
    assert [body.closed for body in daemon.bodies] == [True]
