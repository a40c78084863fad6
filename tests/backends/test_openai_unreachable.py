"""Endpoints that cannot be reached or do not speak HTTP: one clear sentence each, and nothing leaked."""

import socket

import pytest
import trio
import trio.testing

from agents.errors import Refused, Unavailable
from agents.messages import Message, ModelRequest
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from tests.backends.payloads import REQUEST, head
from tests.backends.recorder import Recorder
from tests.backends.upstream import PATIENCE, Talk, fail, open_files, until_open_files


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
    assert recorder.order == []
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
        await until_open_files(before)
        nursery.cancel_scope.cancel()
    assert error.message == (
        f"TLS with 127.0.0.1:{port} failed: it does not speak TLS (is the URL http:// rather than https://?)"
    )


async def test_a_cancelled_tls_handshake_leaks_no_socket() -> None:
    """With a server that accepts and then says nothing, the socket is closed when the cancelled send returns."""

    scope = trio.CancelScope()

    async def mute(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            scope.cancel()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, mute, [listener])
        base_url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}"
        connection = OpenAIBackend(OpenAIConfig(name="x", base_url=base_url)).connect()
        before = open_files()
        with scope:
            await connection.send(REQUEST, Recorder())
        servers_own = 1
        assert open_files() == before + servers_own
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
