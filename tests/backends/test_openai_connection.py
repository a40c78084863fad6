"""A slot's connection over a real socket: reuse, staleness, backpressure, aborts."""

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Truncated, Unavailable
from agents.messages import Message, ModelRequest
from tests.backends.payloads import DONE, END, HELLO, REQUEST, STOP, frame, stream_head, text
from tests.backends.recorder import Recorder
from tests.backends.upstream import PATIENCE, Talk, fail, open_files, until_open_files, upstream


async def test_one_connection_serves_many_requests() -> None:
    """Answers read to their end leave the connection to the next request."""
    async with upstream(HELLO) as server, server.connection() as connection:
        for _ in range(5):
            await connection.send(REQUEST, Recorder())
    assert (server.accepted, len(server.received)) == (1, 5)


async def test_a_connection_that_the_server_closed_while_idle_is_replaced_unseen() -> None:
    """The next request goes out on a new connection, once, and reports what it did."""

    async def last(talk: Talk) -> None:
        await talk.send(HELLO)
        await talk.close()

    recorder = Recorder()
    async with upstream(last, HELLO) as server, server.connection() as connection:
        await connection.send(REQUEST, Recorder())
        await server.until(lambda: server.open == 0)
        reply = await connection.send(REQUEST, recorder)
    assert reply.message.content == "hello"
    assert recorder.order == ["connected", "written", "headers", "deltas", "usage"]
    assert [r.connection for r in server.received] == [0, 1]


async def test_a_connection_lost_while_the_request_is_written_is_replaced_once() -> None:
    """A reused connection that breaks before the whole request is out has done no harm: it is sent again."""

    async def resets_later(talk: Talk) -> None:
        await talk.send(HELLO)
        await talk.stream.receive_some(10)
        await talk.abort()

    large = ModelRequest("m", (Message("user", "x" * 8_000_000),))
    recorder = Recorder()
    async with upstream(resets_later, HELLO) as server, server.connection() as connection:
        await connection.send(REQUEST, Recorder())
        reply = await connection.send(large, recorder)
    assert reply.message.content == "hello"
    assert recorder.order.count("written") == 1
    assert [r.connection for r in server.received] == [0, 1]


async def test_a_whole_request_without_an_answer_is_not_sent_again() -> None:
    """The provider may have counted it: whether to try again is for the retry policy."""

    async def silent(talk: Talk) -> None:
        await talk.close()

    async with upstream(HELLO, silent, HELLO) as server, server.connection() as connection:
        await connection.send(REQUEST, Recorder())
        with pytest.raises(Unavailable, match="closed the connection without an answer") as caught:
            await connection.send(REQUEST, Recorder())
        assert caught.value.worked
        await connection.send(REQUEST, Recorder())
    assert len(server.received) == 3


async def test_written_is_reported_before_any_answer() -> None:
    """The provider may count a request from the moment it is on the wire, long before it answers."""
    recorder = Recorder()
    seen: list[list[str]] = []

    async def script(talk: Talk) -> None:
        await trio.testing.wait_all_tasks_blocked(0.005)
        seen.append(list(recorder.order))
        await talk.send(stream_head())
        await trio.testing.wait_all_tasks_blocked(0.005)
        seen.append(list(recorder.order))
        await talk.send(frame(STOP) + frame(DONE) + END)

    async with upstream(script) as server, server.connection() as connection:
        await connection.send(REQUEST, recorder)
    assert seen == [["connected", "written"], ["connected", "written", "headers"]]


async def test_a_stream_that_does_not_end_after_its_end_marker_delays_nothing() -> None:
    """The reply is complete at the marker; the connection, which isn't, is closed."""

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("a")) + frame(STOP) + frame(DONE))
        await talk.client_left()

    async with upstream(script, HELLO) as server, server.connection(grace_seconds=0.01) as connection:
        reply = await connection.send(REQUEST, Recorder())
        assert reply.message.content == "a"
        await server.until(lambda: server.open == 0)
        await connection.send(REQUEST, Recorder())
    assert server.accepted == 2


async def test_a_request_that_fails_midway_closes_the_connection_and_the_next_works() -> None:
    """A broken answer never leaks into the next one."""
    broken = stream_head() + frame(text("a")) + frame(b"data: {oops\n\n")
    async with upstream(broken, HELLO) as server, server.connection() as connection:
        with pytest.raises(ModelError):
            await connection.send(REQUEST, Recorder())
        await server.until(lambda: server.open == 0)
        reply = await connection.send(REQUEST, Recorder())
    assert reply.message.content == "hello"


async def test_a_second_request_at_the_same_time_is_refused() -> None:
    """A connection is one slot's; sharing it is a mistake that is said at once."""

    async def hold(talk: Talk) -> None:
        await talk.client_left()

    async with upstream(hold) as server, server.connection() as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.send, REQUEST, Recorder())
        await server.until(lambda: len(server.received) == 1)
        with pytest.raises(trio.BusyResourceError):
            await connection.send(REQUEST, Recorder())
        nursery.cancel_scope.cancel()


async def test_a_reader_that_fails_aborts_the_request() -> None:
    """An error raised by the attempt's own progress passes unchanged, and the server sees the connection close."""

    async def gone() -> None:
        raise trio.BrokenResourceError

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("a")))
        await talk.client_left()

    async with upstream(script) as server, server.connection() as connection:
        with pytest.raises(trio.BrokenResourceError):
            await connection.send(REQUEST, Recorder(on_deltas=gone))
        await server.until(lambda: server.open == 0)


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope after its task has run the n-th time, that is at its n-th await point."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task = task
        self._scope = scope
        self._left = step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


@pytest.mark.parametrize("warm", [False, True], ids=["new connection", "reused connection"])
async def test_cancelled_at_every_await_point_the_server_sees_it_and_nothing_leaks(warm: bool) -> None:
    """For each await point in turn: cancelled there, the socket closes, and the connection can send again."""

    async def slow(talk: Talk) -> None:
        for piece in (stream_head(), frame(text("a")), frame(text("b")), frame(STOP), frame(DONE), END):
            await talk.send(piece)
            await trio.testing.wait_all_tasks_blocked()

    async def linger() -> None:
        await trio.lowlevel.checkpoint()

    cancelled = 0
    for step in range(1, 200):
        async with upstream(*([HELLO] if warm else []), slow, HELLO) as server:
            before = open_files()
            async with server.connection() as connection:
                if warm:
                    await connection.send(REQUEST, Recorder())
                with trio.CancelScope() as scope:
                    instrument = CancelAtStep(trio.lowlevel.current_task(), scope, step)
                    trio.lowlevel.add_instrument(instrument)
                    try:
                        await connection.send(REQUEST, Recorder(on_deltas=linger))
                    finally:
                        trio.lowlevel.remove_instrument(instrument)
                if not scope.cancelled_caught:
                    break
                cancelled += 1
                await server.until(lambda: server.open == 0)
                await until_open_files(before)
                server.scripts[:] = [HELLO]
                reply = await connection.send(REQUEST, Recorder())
                assert reply.message.content == "hello"
            await server.until(lambda: server.open == 0)
            await until_open_files(before)
    assert cancelled > 8, "the request has that many await points at least"
    assert cancelled < 199, "the last round must end uncancelled"


async def test_a_slow_reader_stops_the_upstream_read() -> None:
    """While the reader holds the deltas, the server's writes end up blocked by the full socket."""
    filler = frame(text("x" * 60_000))
    blocked = trio.Event()

    async def script(talk: Talk) -> None:
        await talk.send(stream_head())
        for _ in range(1000):
            with trio.move_on_after(0.02) as scope:
                await talk.send(filler)
            if scope.cancelled_caught:
                blocked.set()
                await talk.close()

    async def hold() -> None:
        await blocked.wait()

    with trio.fail_after(PATIENCE):
        caught, _ = await fail(script, on_deltas=hold)
    assert isinstance(caught, Truncated)
    assert blocked.is_set()
