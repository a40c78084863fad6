"""A streamed answer to a program: its dialect's events as they come.

Events that the backend's adapter had ready together go out in one write. When the head goes out:

- with the first event, or with the error that comes instead, which then has its own status: the SDKs try again after
  429 and 5xx, and can do so only while the stream has not begun;
- or after `HEAD_SECONDS` in the queue, since proxies and clients give up on a server that says nothing, often after
  30 or 60 s. From then on an error is the stream's last event.

While there is nothing to say, a sign of life every `heartbeat_seconds`, by which nothing begins: a comment, and for
`messages` the `ping` event that Anthropic's SDK passes over.

`chat` ends with `data: [DONE]`, if it ends whole; the others end with an event that says so itself.

Sources: WHATWG HTML, "Server-sent events"; the OpenAI API reference, "Streaming"; Claude documentation, "Streaming
messages".
"""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from agents.errors import Draining
from agents.messages import Dialect, WireEvent
from orchestrator.api.gateway_errors import failure, failure_event
from orchestrator.api.streams import EVENTS, Stream

HEAD_SECONDS: Final = 10.0

_DONE: Final = b"[DONE]"
_LAST: Final = b"data: [DONE]\n\n"
_COMMENT: Final = b": waiting\n\n"
_PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'
_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")

Batches = AsyncGenerator[tuple[WireEvent, ...] | None, None]
"""Events that came together; None: what came before does not count any more, which no stream is told."""


class Relay(Stream):
    """An ASGI application that streams batches of events to a program."""

    media_type = EVENTS

    def __init__(self, scope: Scope, dialect: Dialect, batches: Batches) -> None:
        super().__init__(patience=HEAD_SECONDS)
        self.heartbeat = _PING if dialect == "messages" else _COMMENT
        self._scope = scope
        self._dialect: Dialect = dialect
        self._batches = batches
        self._events = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                chunk = self._encoded(batch or ())
                if chunk:
                    yield chunk
        if self._dialect == "chat":
            yield _LAST

    def refusal(self, error: Exception) -> Response:
        return failure(self._scope, error)

    def last_words(self, error: Exception | None) -> bytes | None:
        why = Draining("the daemon is shutting down") if error is None else error
        event, data = failure_event(self._scope, self._dialect, why, self._events)
        return framed(WireEvent(event, data))

    def _encoded(self, events: Iterable[WireEvent]) -> bytes:
        parts = [framed(event) for event in events if event.data != _DONE]
        self._events += len(parts)
        return b"".join(parts)


def framed(event: WireEvent) -> bytes:
    """An event on the wire."""
    data = event.data
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_ENDS.split(data))
    if event.event:
        return b"event: %b\ndata: %b\n\n" % (event.event.encode(), data)
    return b"data: %b\n\n" % data
