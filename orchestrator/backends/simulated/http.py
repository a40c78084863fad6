"""HTTP/1.1 for the simulated provider's server: h11 on a trio stream, small enough to misbehave on purpose.

One `HttpConnection` per client. Heads and bodies are bounded, idle clients are let go, a client that leaves while its
answer is being made is noticed at once, and a close never destroys an answer that is still on its way.
"""

import socket
import struct
from contextlib import suppress

import h11
import trio

from orchestrator.backends.simulated.wire import Headers

MAX_HEAD = 65_536
MAX_BODY = 16 * 1024 * 1024
IDLE_SECONDS = 75.0
LINGER_SECONDS = 1.0
_READ = 65_536
_SEND_BUFFER = 65_536


class BadRequest(Exception):
    """A request that HTTP itself refuses; the connection ends after the answer.

    `request` is as much of it as was read: whoever asked is answered in his own words even so.
    """

    def __init__(self, status: int, message: str, request: "HttpRequest") -> None:
        super().__init__(message)
        self.status = status
        self.request = request


class HttpRequest:
    """One request, read whole. `path` has no query; header names are in lower case."""

    __slots__ = ("body", "headers", "method", "path")

    def __init__(self, head: h11.Request | None = None, body: bytes = b"") -> None:
        self.method = head.method.decode("ascii") if head else ""
        self.path = head.target.decode("ascii", "replace").partition("?")[0] if head else ""
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers} if head else {}
        self.body = body


class HttpConnection:
    """One client's connection: requests in, responses out, one after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        # with the kernel's own, larger buffer a reader that stops would be noticed megabytes too late
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._bodiless = False
        self.gone = False

    async def receive(self) -> HttpRequest | None:
        """The next request; None when the client is done or idle for too long. Raises `BadRequest`."""
        with trio.move_on_after(IDLE_SECONDS):
            try:
                return await self._receive()
            except h11.RemoteProtocolError as error:
                raise BadRequest(error.error_status_hint, str(error), HttpRequest()) from None
            except trio.BrokenResourceError:
                pass
        return None

    async def _receive(self) -> HttpRequest | None:
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        self._bodiless = head.method == b"HEAD"
        length = next((value for name, value in head.headers if name == b"content-length"), b"0")
        if int(length) > MAX_BODY:  # h11 has checked that it is a number of sane length
            raise BadRequest(413, f"the body is larger than {MAX_BODY} bytes", HttpRequest(head))
        if self._h11.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while isinstance(part := await self._next_event(), h11.Data):
            body += part.data
            if len(body) > MAX_BODY:
                raise BadRequest(413, f"the body is larger than {MAX_BODY} bytes", HttpRequest(head))
        return HttpRequest(head, bytes(body)) if isinstance(part, h11.EndOfMessage) else None

    async def _next_event(self) -> h11.Event | None:
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                return None
            self._h11.receive_data(await self._stream.receive_some(_READ))

    async def watch(self, scope: trio.CancelScope) -> None:
        """Cancels `scope` when the client leaves; one that only closes its sending half counts as leaving.

        What a client sends ahead is kept for later, up to a bound, beyond which its leaving is noticed by writing.
        """
        ahead = 0
        while ahead < MAX_HEAD:
            try:
                data = await self._stream.receive_some(_READ)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                self.gone = True
                scope.cancel()
                return
            ahead += len(data)
            self._h11.receive_data(data)

    @property
    def answered(self) -> bool:
        """True once the head of the current response is sent."""
        return self._h11.our_state is not h11.SEND_RESPONSE and self._h11.our_state is not h11.IDLE

    async def begin(self, status: int, headers: Headers) -> None:
        """Sends the head of a response."""
        await self._send(h11.Response(status_code=status, headers=headers))

    async def data(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole response."""
        await self.begin(status, [*headers, ("content-length", str(len(body)))])
        if not self._bodiless:
            await self.data(body)
        await self.end()

    async def _send(self, event: h11.Event) -> None:
        data = self._h11.send(event)
        if data:
            await self._stream.send_all(data)

    def next_cycle(self) -> bool:
        """Makes ready for another request; False if the connection has to end."""
        if self.gone or self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    async def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self._stream)

    async def aclose(self) -> None:
        """Ends the connection so that what was sent arrives: unread input would turn the close into a reset."""
        with trio.move_on_after(LINGER_SECONDS), suppress(trio.BrokenResourceError):
            if not self.gone:
                await self._stream.send_eof()
                while await self._stream.receive_some(_READ):
                    pass
        await trio.aclose_forcefully(self._stream)
