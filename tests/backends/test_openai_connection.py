"""A slot's connection over a real socket: reuse, staleness, aborts, and failures to connect at all."""

import os
import socket

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Refused, Unavailable
from agents.messages import Message, ModelRequest
from orchestrator.backends.openai import OpenAIBackend, OpenAIConfig
from tests.backends.payloads import DONE, END, HELLO, REQUEST, STOP, frame, head, stream_head, text
from tests.backends.upstream import PATIENCE, Recorder, Talk, fail, upstream


def open_files() -> int:
    """Counted without a garbage collection first: a socket that waits for one is leaked."""
    return len(os.listdir("/proc/self/fd"))


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
    assert recorder.names == ["connected", "written", "headers", "deltas", "usage"]
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
    assert recorder.names.count("written") == 1
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
        seen.append(recorder.names)
        await talk.send(stream_head())
        await trio.testing.wait_all_tasks_blocked(0.005)
        seen.append(recorder.names)
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
                assert open_files() == before
                server.scripts[:] = [HELLO]
                reply = await connection.send(REQUEST, Recorder())
                assert reply.message.content == "hello"
            await server.until(lambda: server.open == 0)
            assert open_files() == before
    assert cancelled > 8, "the request has that many await points at least"
    assert cancelled < 199, "the last round must end uncancelled"


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def unreachable(base_url: str) -> Unavailable:
    recorder = Recorder()
    connection = OpenAIBackend(OpenAIConfig(name="x", base_url=base_url)).connect()
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            await connection.send(REQUEST, recorder)
    await connection.aclose()
    assert recorder.events == []
    assert caught.value.worked is False
    return caught.value


async def test_an_unreachable_port_is_one_clear_sentence() -> None:
    """Refused means that the provider did no work, and the message says where nothing listens."""
    port = closed_port()
    error = await unreachable(f"http://127.0.0.1:{port}/v1")
    assert error.message == f"127.0.0.1:{port} refused the connection: nothing listens there"


async def test_an_unknown_host_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that doesn't resolve is named."""

    async def unresolved(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unresolved)
    error = await unreachable("http://no-such-host.invalid/v1")
    assert error.message == "the name of no-such-host.invalid cannot be resolved: Name or service not known"


async def test_tls_against_a_plain_server_is_one_clear_sentence() -> None:
    """The usual mistake, https for http, is guessed at."""

    async def plain(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, plain, [listener])
        port = listener.socket.getsockname()[1]
        before = open_files()
        error = await unreachable(f"https://127.0.0.1:{port}/v1")
        assert open_files() == before
        nursery.cancel_scope.cancel()
    assert error.message == (
        f"TLS with 127.0.0.1:{port} failed: it does not speak TLS (is the URL http:// rather than https://?)"
    )


async def test_a_cancelled_tls_handshake_leaks_no_socket() -> None:
    """A server that accepts and then says nothing during the handshake sees the socket close."""
    left = trio.Event()

    async def mute(stream: trio.SocketStream) -> None:
        async with stream:
            while await stream.receive_some():
                pass
        left.set()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, mute, [listener])
        backend = OpenAIBackend(
            OpenAIConfig(name="x", base_url=f"https://127.0.0.1:{listener.socket.getsockname()[1]}")
        )
        with trio.move_on_after(0.02):
            await backend.connect().send(REQUEST, Recorder())
        with trio.fail_after(PATIENCE):
            await left.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n", "does not answer in HTTP"),
        (b"", "closed the connection without an answer"),
    ],
)
async def test_a_server_that_speaks_no_http_is_one_clear_sentence(answer: bytes, words: str) -> None:
    """Something else behind the port is told apart from nothing."""

    async def script(talk: Talk) -> None:
        await talk.send(answer)
        await talk.close()

    caught, _ = await fail(script)
    assert type(caught) is Unavailable
    assert words in caught.message


async def test_a_compressed_answer_is_refused_clearly() -> None:
    """None was asked for, and guessing would decode garbage."""
    caught, _ = await fail(head(content_encoding="gzip", content_length="3") + b"\x1f\x8b\x08")
    assert isinstance(caught, Unavailable)
    assert "gzip" in caught.message


async def test_an_early_refusal_of_a_large_request_is_heard() -> None:
    """A server that answers 413 and closes before it has read the whole request is understood."""

    async def script(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(1000)
            await stream.send_all(head(413, "text/plain", content_length="0", connection="close"))
            await stream.send_eof()
            with trio.move_on_after(PATIENCE):
                while await stream.receive_some():
                    pass

    large = ModelRequest("m", (Message("user", "x" * 3_000_000),))
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, script, [listener])
        base_url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        connection = OpenAIBackend(OpenAIConfig(name="x", base_url=base_url)).connect()
        with pytest.raises(Refused) as caught:
            await connection.send(large, Recorder())
        await connection.aclose()
        nursery.cancel_scope.cancel()
    assert caught.value.status == 413
