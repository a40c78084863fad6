"""The two ways to an MCP server, the SDK's own, with what it does not show: that a connection ended, and last words."""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final, Self

import httpx2
import trio
from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage

from orchestrator.tools.mcp_config import McpConfig
from orchestrator.tools.mcp_http import CONNECT_TIMEOUT, WRITE_TIMEOUT, Confined

# The SDK writes what it could not read to the log, whole. What goes wrong comes to whoever called, in bounded words.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

LAST_WORDS_SECONDS: Final = 0.5
"""How long a server's last output is waited for; a process it left behind may keep the pipe open for ever."""

MOST_WORDS: Final = 400
"""Bytes of a line that are kept."""


class Line:
    """A way to one server that has not been opened. `not_sent` marks errors of calls that it never saw, if it can.

    `ended` is set when the server has closed the connection, before anybody else can see that it did.
    """

    def __init__(self, config: McpConfig) -> None:
        self.ended = trio.Event()
        self.not_sent: str | None = None
        self.last_words = ""
        self._config = config

    def open(self) -> AbstractAsyncContextManager[TransportStreams]:
        return self._stdio() if self._config.command else self._http()

    async def _listen(self, output: trio.abc.ReceiveStream) -> None:
        """Reads what a program says besides, so that it never blocks on a full pipe, and keeps its last line."""
        rest = b""
        async for chunk in output:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in (*lines, rest):
                if line.strip():
                    self.last_words = line[:MOST_WORDS].decode("utf-8", "replace").strip()
            rest = rest[:MOST_WORDS]

    @asynccontextmanager
    async def _stdio(self) -> AsyncIterator[TransportStreams]:
        program, *arguments = self._config.command
        parameters = StdioServerParameters(
            command=program, args=arguments, env=dict(self._config.env), cwd=self._config.cwd
        )
        reading, writing = os.pipe()
        async with trio.lowlevel.FdStream(reading) as output, trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, output)
            with os.fdopen(writing, "w") as errors:
                async with stdio_client(parameters, errlog=errors) as (read, write):
                    errors.close()
                    yield _Watched(read, self.ended.set), write
            nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_SECONDS

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[TransportStreams]:
        # No connection is used twice: one that the server closed meanwhile looks like one that broke after sending.
        confined = Confined(httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_keepalive_connections=0)))
        self.not_sent = confined.not_sent
        # no limit to reading: a call has a deadline of its own
        timeout = httpx2.Timeout(CONNECT_TIMEOUT, read=None, write=WRITE_TIMEOUT, pool=None)
        async with (
            httpx2.AsyncClient(headers=dict(self._config.headers), timeout=timeout, transport=confined) as client,
            streamable_http_client(self._config.url, http_client=client) as (read, write),
        ):
            yield _Watched(read, self.ended.set), write


class _Watched:
    """A stream of messages that tells when it ended."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._stream.__anext__()
        except Exception:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
