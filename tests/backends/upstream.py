"""A scripted upstream on a real loopback socket: it sends exactly the bytes a test gives, and says what it saw."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import Struct

from agents.errors import ModelError
from agents.messages import ModelReply
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig, OpenAIConnection
from tests.backends.payloads import REQUEST
from tests.backends.recorder import Recorder

PATIENCE = 5.0
"""Seconds after which a test that waits for something has failed; never reached when it passes."""


class Received(Struct):
    """One request as it arrived. `connection` counts accepted sockets from 0."""

    connection: int
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.strip().lower() == name:
                return value.strip()
        return None


class Talk:
    """One accepted connection, as a script sees it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def abort(self) -> None:
        """Closes with a reset rather than an orderly end."""
        self.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await self.stream.aclose()

    async def close(self) -> None:
        await self.stream.aclose()

    async def client_left(self) -> None:
        """Waits until the client has closed its side."""
        try:
            while await self.stream.receive_some():
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def read_request(self) -> tuple[bytes, bytes] | None:
        """The next request's head and body; None once the client has closed."""
        while b"\r\n\r\n" not in self._buffer:
            if not await self._more():
                return None
        end = self._buffer.index(b"\r\n\r\n")
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        while len(self._buffer) < length:
            if not await self._more():
                return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return head, body

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(65536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        self._buffer += data
        return bool(data)


Script = bytes | Callable[[Talk], Awaitable[None]]


class Upstream:
    """Answers the n-th request by the n-th script, over all connections; the last script answers all later ones."""

    def __init__(self, scripts: Sequence[Script], listener: trio.SocketListener) -> None:
        self.scripts = list(scripts)
        self.port: int = listener.socket.getsockname()[1]
        self.received: list[Received] = []
        self.accepted = 0
        self.open = 0
        self._changed = trio.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def backend(self, **options: Any) -> OpenAIBackend:
        environ = options.pop("environ", {})
        return OpenAIBackend(OpenAIConfig(name="test", base_url=self.base_url, **options), environ=environ)

    @asynccontextmanager
    async def connection(self, **options: Any) -> AsyncGenerator[OpenAIConnection, None]:
        """A connection of a backend of its own, closed at the block's end."""
        connection = self.backend(**options).connect()
        try:
            yield connection
        finally:
            await connection.aclose()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds; looked at whenever a connection opens, closes or brings a request."""
        with trio.fail_after(PATIENCE):
            while not condition():
                await self._changed.wait()

    async def handle(self, stream: trio.SocketStream) -> None:
        number = self.accepted
        self.accepted += 1
        self.open += 1
        talk = Talk(stream)
        try:
            self._note()
            while (request := await talk.read_request()) is not None:
                script = self.scripts[min(len(self.received), len(self.scripts) - 1)]
                self.received.append(Received(number, *request))
                self._note()
                if isinstance(script, bytes):
                    await talk.send(script)
                else:
                    await script(talk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.open -= 1
            self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def upstream(*scripts: Script) -> AsyncGenerator[Upstream, None]:
    """Serves the scripts on a port of its own until the block ends."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = Upstream(scripts, listener)
    with trio.fail_after(4 * PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, server.handle, [listener])
            yield server
            nursery.cancel_scope.cancel()


async def ask(script: Script, **options: object) -> tuple[ModelReply, Recorder]:
    """One request to an upstream with that script."""
    recorder = Recorder()
    async with upstream(script) as server, server.connection(**options) as connection:
        return await connection.send(REQUEST, recorder), recorder


async def fail(
    script: Script, on_deltas: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint, **options: object
) -> tuple[ModelError, Recorder]:
    """The error of one request to an upstream with that script."""
    recorder = Recorder(on_deltas)
    async with upstream(script) as server, server.connection(**options) as connection:
        with pytest.raises(ModelError) as caught:
            await connection.send(REQUEST, recorder)
    return caught.value, recorder


def in_two_reads(first: bytes, second: bytes) -> Script:
    """A script whose second part is sent only when the client, having read the first, is idle."""

    async def script(talk: Talk) -> None:
        await talk.send(first)
        await trio.testing.wait_all_tasks_blocked(0.005)
        await talk.send(second)

    return script


def open_files() -> int:
    """Counted without a garbage collection first: a socket that waits for one is leaked."""
    return len(os.listdir("/proc/self/fd"))


async def until_open_files(expected: int) -> None:
    """Waits until the process has that many files open: the other side closes its sockets in its own time."""
    with trio.fail_after(PATIENCE):
        while open_files() != expected:
            await trio.testing.wait_all_tasks_blocked(0.001)
