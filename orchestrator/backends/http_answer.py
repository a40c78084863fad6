"""One request over a slot's transport, and whatever comes back: a stream, a document, or an error's text.

There are no clocks here for the call: the attempt has those, and cancels. Only after the outcome is decided is there a
wait, for `grace` seconds at most, for the end of a body: an error's text, or the last bytes that let the connection be
used again.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import httpx2
import trio

from agents.errors import ModelError, Unavailable
from agents.messages import ModelReply
from orchestrator.backends.base import Progress
from orchestrator.backends.connection import SlotTransport
from orchestrator.backends.exchange import Exchange
from orchestrator.backends.headers import read_limits
from orchestrator.backends.unreachable import error_from_transport
from orchestrator.policy.feedback import Reading

ERROR_BODY_BYTES = 64 * 1024

Failure = Callable[[int, bytes, Mapping[str, str], Sequence[Reading], float], ModelError]
"""The error of an answer with this status, body, headers (names in lower case) and limits; last, the time of day."""


class Sending:
    """How requests are sent to one endpoint. `wall` gives the time of day, for limits that reset at a date."""

    def __init__(self, host: str, grace: float, wall: Callable[[], float], failure: Failure) -> None:
        self._host = host
        self._grace = grace
        self._wall = wall
        self._failure = failure

    async def send(
        self, transport: SlotTransport, request: httpx2.Request, exchange: Exchange, progress: Progress
    ) -> ModelReply:
        """Sends the request and returns the reply that the exchange reads. Raises a `ModelError`."""
        transport.watch = exchange
        try:
            return await self._send(transport, request, exchange, progress)
        finally:
            transport.watch = None

    async def _send(
        self, transport: SlotTransport, request: httpx2.Request, exchange: Exchange, progress: Progress
    ) -> ModelReply:
        try:
            response = await transport.handle_async_request(request)
        except httpx2.TransportError as exc:
            raise error_from_transport(exc, self._host, written=exchange.sent) from exc
        body = response.stream
        assert isinstance(body, httpx2.AsyncByteStream)
        chunks = body.__aiter__()
        try:
            headers = {name.lower(): value for name, value in response.headers.multi_items()}
            now = self._wall()
            readings = read_limits(headers, now)
            progress.headers(readings)
            if response.status_code != 200:
                text = await self._error_body(chunks, exchange)
                raise self._failure(response.status_code, text, headers, readings, now)
            encoding = headers.get("content-encoding", "identity")
            if encoding != "identity":
                raise Unavailable(f"{self._host} compressed its answer ({encoding}), which was not asked for")
            reply = await exchange.read_reply(chunks, headers.get("content-type", ""))
            await self._drain(chunks)
            return reply
        finally:
            await body.aclose()

    async def _error_body(self, chunks: AsyncIterator[bytes], exchange: Exchange) -> bytes:
        """The beginning of an error's body. The status has decided already, so nothing here can fail or hang."""
        text = b""
        with trio.move_on_after(self._grace):
            try:
                async for chunk in chunks:
                    exchange.heard()
                    text += chunk
                    if len(text) > ERROR_BODY_BYTES:
                        break
            except httpx2.TransportError:
                pass
        return text

    async def _drain(self, chunks: AsyncIterator[bytes]) -> None:
        """Reads on to the body's end, so that the connection can be used again; what doesn't end is closed."""
        with trio.move_on_after(self._grace):
            try:
                async for _ in chunks:
                    pass
            except httpx2.TransportError:
                pass
