"""One slot's connection: an httpx2 transport over a single bare httpcore2 connection, with its life made visible.

The owner decides how many calls are in flight, so nothing here pools, queues or limits. What it adds to httpcore:

- It reconnects when the server has closed an idle connection. Seen in time, that costs nothing; seen only while the
  request is being written, the request is written again on a new connection, once, and only because an unfinished
  request cannot have been acted on (RFC 9110, section 9.2.2). A whole request that got no answer is an error.
- A `Watch` hears when a connection stands, when the request is on the wire, and before every read of the socket. The
  last lets a reader hand on together all that one read brought, however many HTTP chunks it held.
- Leaving early, by cancellation or error, closes the socket at once, so that the server sees the abort. Closing never
  waits: over TLS httpcore sends no farewell.
"""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, Protocol

import httpcore2
import httpx2
import trio

from orchestrator.backends.tracing import TRACEPARENT

CORE_ERRORS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


class Watch(Protocol):
    """What the sender of one request wants to hear of."""

    def connected(self) -> None: ...

    def written(self) -> None: ...

    async def before_read(self) -> None:
        """The socket is about to be read: everything that came before has been handed out."""
        ...


class SlotTransport(httpx2.AsyncBaseTransport):
    """Sends one request at a time to one origin. Errors are httpx2's, with httpcore2's as their cause.

    `keepalive_seconds` bounds how long an idle connection is trusted, on the system's monotonic clock.
    """

    def __init__(self, origin: httpx2.URL, ssl_context: ssl.SSLContext | None, keepalive_seconds: float) -> None:
        self._origin = httpcore2.Origin(
            origin.raw_scheme, origin.raw_host, origin.port or (443 if origin.scheme == "https" else 80)
        )
        self._ssl_context = ssl_context
        self._keepalive_seconds = keepalive_seconds
        self._network = _SlotNetwork(self)
        self._connection: httpcore2.AsyncHTTPConnection | None = None
        self._begun = self._torn = self._written = False
        self.watch: Watch | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends the request and returns once the response's headers are in.

        Raises `httpx2.TransportError`; its subclass `ConnectError` means that no byte of the request was sent.
        """
        fresh = await self._prepare()
        try:
            return await self._exchange(request)
        except httpx2.TransportError:
            if fresh or self._written:
                raise
        await self._prepare()
        return await self._exchange(request)

    async def aclose(self) -> None:
        """Closes the socket without ceremony, also under cancellation. The transport can be used again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with trio.CancelScope(shield=True):
                await connection.aclose()

    async def before_read(self) -> None:
        """The answer is looked for: so the request is out, unless a write failed, which httpcore lets pass.

        It then reads all the same, for an answer that may have come early. Its trace events would tell the two apart
        as well, for a twentieth of a short request's time.
        """
        watch = self.watch
        if not (self._written or self._torn):
            self._written = True
            if watch is not None:
                watch.written()
        if watch is not None:
            await watch.before_read()

    def wrote(self) -> None:
        """A part of the request is on its way, so a connection stands."""
        if not self._begun:
            self._begun = True
            if self.watch is not None:
                self.watch.connected()

    def tore(self) -> None:
        """A part of the request could not be written."""
        self._torn = True

    async def _prepare(self) -> bool:
        """Makes sure that a usable connection object is there; True if its socket has yet to be opened."""
        connection = self._connection
        if connection is not None:
            if connection.is_available() and not connection.has_expired():
                return False
            await self.aclose()
        self._connection = httpcore2.AsyncHTTPConnection(
            self._origin, self._ssl_context, self._keepalive_seconds, network_backend=self._network
        )
        return True

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        assert self._connection is not None
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        self._begun = self._torn = self._written = False
        core_request = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=_traced(request.headers.raw),
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._connection.handle_async_request(core_request)
        except CORE_ERRORS as exc:
            await self.aclose()
            raise as_httpx(exc, request) from exc
        except BaseException:
            await self.aclose()
            raise
        assert isinstance(response.stream, AsyncIterable)
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=SlotBody(response.stream, request),
            extensions=response.extensions,
        )


def _traced(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    traceparent = TRACEPARENT.get()
    return [*headers, (b"traceparent", traceparent.encode())] if traceparent else headers


class SlotBody(httpx2.AsyncByteStream):
    """A response's bytes as they arrive. Closed before its end, it takes the connection with it."""

    def __init__(self, stream: AsyncIterable[bytes], request: httpx2.Request) -> None:
        self._stream = stream
        self._chunks = stream.__aiter__()
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._chunks.__anext__()
        except CORE_ERRORS as exc:
            raise as_httpx(exc, self._request) from exc

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            for part in (self._chunks, self._stream):
                close = getattr(part, "aclose", None)
                if close is not None:
                    await close()


def as_httpx(exc: Exception, request: httpx2.Request) -> httpx2.TransportError:
    """The httpx2 exception of the same name as an httpcore2 one."""
    kind = getattr(httpx2, type(exc).__name__, httpx2.TransportError)
    error: httpx2.TransportError = kind(str(exc), request=request)
    return error


class _SlotNetwork(httpcore2.AsyncNetworkBackend):
    """Opens trio sockets and wraps them, so that reads are announced and no failed handshake leaks its socket."""

    def __init__(self, slot: SlotTransport) -> None:
        self._slot = slot
        self._inner = httpcore2.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _SlotStream(
            await self._inner.connect_tcp(host, port, timeout, local_address, socket_options), self._slot
        )

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class _SlotStream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: httpcore2.AsyncNetworkStream, slot: SlotTransport) -> None:
        self._inner = inner
        self._slot = slot

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await self._slot.before_read()
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._inner.write(buffer, timeout)
        except BaseException:
            self._slot.tore()
            raise
        self._slot.wrote()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _SlotStream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._slot)
        except BaseException:
            # httpcore closes the socket of a handshake that failed, but not of one that was cancelled.
            await self.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
