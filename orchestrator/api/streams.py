"""Answers that go on: server-sent events and JSON Lines.

Both end when the client leaves (also while there is nothing to send), when their generator ends, and when the surface
closes. Each item goes out at once, in one write; a reader that is slow makes the generator wait, and one that takes
nothing for `stalled_seconds` is cut off, since what it waits for may be scarce (a slot of a backend). The generator is
closed in the task that iterated it, whatever the reason for the end.

- Events (WHATWG HTML, "Server-sent events"): a comment every `heartbeat_seconds` of silence, so that proxies and
  clients see that the connection lives. When the surface closes, the last event is `closing`; after a failure it is
  `error`, an `ErrorAnswer`.
- JSON Lines have no words of their own for an end that is none. So where the generator fails or the surface closes, the
  body is cut off without its end, which a client sees as a broken transfer and not as a whole answer.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import trio
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agents.errors import HeadraceError
from orchestrator.api.errors import BadRequest, error_json, error_response
from orchestrator.api.leaving import departure
from orchestrator.api.surface import surface_of
from orchestrator.api.unread import CUT

EVENTS: Final = "text/event-stream; charset=utf-8"
LINES: Final = "application/x-ndjson"

LAST_SECONDS: Final = 0.25
"""When the surface closes a stream has this long to end by itself."""

_COMMENT: Final = b":\n\n"
_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")


class ServerEvent(Struct, frozen=True):
    """One event: its data, its name (empty is `message`) and the id that a client comes back with."""

    data: bytes
    event: str = ""
    id: str = ""

    def encode(self) -> bytes:
        """The event on the wire."""
        head = f"id: {self.id}\n" if self.id else ""
        if self.event:
            head += f"event: {self.event}\n"
        data = b"".join(b"data: " + line + b"\n" for line in _LINE_ENDS.split(self.data))
        return head.encode() + data + b"\n"


def last_event_id(request: Request) -> int:
    """The number of the last event that a returning client has seen; 0 for a new one. Raises `BadRequest`."""
    said = request.headers.get("last-event-id", "").strip()
    if not said:
        return 0
    if not (said.isascii() and said.isdecimal() and len(said) <= 18):
        raise BadRequest(
            f"Last-Event-ID: must be the id of an event of this stream, not {said[:40]!r}", "Last-Event-ID"
        )
    return int(said)


class Stream:
    """An ASGI application that sends a generator's items as they come. See `EventStream`, `LineStream`.

    `patience` in seconds: the head is held back until the first item, but no longer, so that a failure that comes at
    once still has a status of its own.
    """

    media_type: str = LINES
    heartbeat: bytes = b""

    def __init__(self, *, patience: float = 0.0) -> None:
        self._patience = patience

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The items, as they go on the wire."""
        raise NotImplementedError

    def last_words(self, error: Exception | None) -> bytes | None:
        """What ends the body after a failure, or (None) when the surface closes; None cuts it off."""
        raise NotImplementedError

    def refusal(self, error: Exception) -> Response:
        """The answer, where a failure comes before the head is out."""
        return error_response(error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(self, scope, send)
        if scope["method"] == "HEAD":
            await body.end()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(body.pump, nursery.cancel_scope)
            nursery.start_soon(body.beat, self._patience, nursery.cancel_scope)
            await departure(receive)
            body.leave(nursery.cancel_scope)
        await body.finish()


class _Body:
    """One body on its way: who may write to it, and how it ended."""

    def __init__(self, stream: Stream, scope: Scope, send: Send) -> None:
        self._stream = stream
        self._surface = surface_of(scope)
        self._cut = scope.get("state", {}).get(CUT)
        self._send = send
        self._lock = trio.Lock()
        self._begun = False
        self._sent_at = trio.current_time()
        self._whole = False
        self._error: Exception | None = None
        self.left = False

    async def pump(self, scope: trio.CancelScope) -> None:
        """Sends what the generator yields."""
        try:
            async with aclosing(self._stream.chunks()) as chunks:
                async for chunk in chunks:
                    await self._write(chunk)
            self._whole = True
        except Exception as error:
            self._error = error
        scope.cancel()

    async def beat(self, patience: float, scope: trio.CancelScope) -> None:
        """Begins when patience is over, breaks silences, and ends it all for a stalled client or a closing surface.

        A write that lasts is looked at again and again, which costs less than a clock for each.
        """
        closing, config = self._surface.closing, self._surface.config
        every = config.heartbeat_seconds
        with trio.move_on_after(patience):
            await closing.wait()
        if not closing.is_set() and not self._begun:
            await self._write(b"")
        while not closing.is_set():
            writing = self._lock.locked()
            with trio.move_on_at((trio.current_time() if writing else self._sent_at) + every):
                await closing.wait()
            now = trio.current_time()
            if closing.is_set() or now < self._sent_at + every:
                continue
            if not self._lock.locked():
                await self._write(self._stream.heartbeat)
            elif now >= self._sent_at + config.stalled_seconds:
                self._cut_off(scope)
                return
        # what is being watched may have just ended as well, and its last words are on their way
        await trio.sleep(LAST_SECONDS)
        scope.cancel()

    def leave(self, scope: trio.CancelScope) -> None:
        """Nobody reads this any more."""
        self.left = True
        scope.cancel()

    def _cut_off(self, scope: trio.CancelScope) -> None:
        self.leave(scope)
        if self._cut is not None:
            self._cut()

    async def finish(self) -> None:
        """After the end: says why, if it can still be said."""
        if self.left:
            return
        if self._error is not None and not self._begun:
            await self._refuse(self._error)
            return
        words = b"" if self._whole else self._stream.last_words(self._error)
        if words is None:
            return
        await self._write(words)
        await self.end()

    async def end(self) -> None:
        """The end of a whole body."""
        async with self._lock:
            await self._begin()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, chunk: bytes) -> None:
        async with self._lock:
            await self._begin()
            if chunk:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            self._sent_at = trio.current_time()

    async def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        head: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [
                (b"content-type", self._stream.media_type.encode()),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
            ],
        }
        await self._send(head)

    async def _refuse(self, error: Exception) -> None:
        response = self._stream.refusal(error)
        await self._send(
            {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await self._send({"type": "http.response.body", "body": bytes(response.body), "more_body": False})


class EventStream(Stream):
    """Server-sent events from a generator. Those it yields together go out together."""

    media_type = EVENTS
    heartbeat = _COMMENT

    def __init__(
        self, events: AsyncGenerator[ServerEvent | tuple[ServerEvent, ...], None], *, patience: float = 0.0
    ) -> None:
        super().__init__(patience=patience)
        self._events = events

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._events) as events:
            async for event in events:
                yield event.encode() if isinstance(event, ServerEvent) else b"".join(part.encode() for part in event)

    def last_words(self, error: Exception | None) -> bytes | None:
        if error is None:
            return ServerEvent(b'{"message":"the daemon is ending"}', "closing").encode()
        return ServerEvent(error_json(error), "error").encode()


class LineStream(Stream):
    """Lines, or any bytes, from a generator."""

    def __init__(self, lines: AsyncGenerator[bytes, None], *, media_type: str = LINES, patience: float = 0.0) -> None:
        super().__init__(patience=patience)
        self.media_type = media_type
        self._lines = lines

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return self._lines

    def last_words(self, error: Exception | None) -> bytes | None:
        if error is not None and not isinstance(error, HeadraceError):
            error_json(error)  # for the log
        return None
