"""One request and its answer: body bytes in, deltas to the attempt, one reply or one error out.

What the server sends is judged by its first bytes rather than by its content type alone, since servers that ignore
`stream: true` answer with one JSON document and proxies answer with HTML.
"""

from collections.abc import AsyncIterator
from typing import Literal

import httpx2

from agents.errors import ModelError, Truncated, Unavailable
from agents.messages import Delta, ModelReply, Usage
from orchestrator.backends.base import Progress
from orchestrator.backends.openai_errors import Place, error_from_event
from orchestrator.backends.openai_stream import ReplyAssembler
from orchestrator.backends.sse import ServerEvent, SSEParser, StreamTooLong
from orchestrator.dialects.chat_wire import ChunkWire, NotJSON, decode_chunk, loads

Form = Literal["stream", "document", "other"]

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = 6


def form_of(head: bytes, content_type: str) -> Form | None:
    """What a body is, by its first bytes; None while they don't tell."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return None
    if start[:1] == b"{":
        return "document"
    if content_type.lower().startswith("text/event-stream") and start[:1] != b"<":
        return "stream"
    if start.startswith(_FIELDS):
        return "stream"
    return None if len(start) < _LONGEST_FIELD and start[:1] != b"<" else "other"


class Exchange:
    """The state of one request. It is the transport's `Watch`, and it reads the body of a successful response."""

    def __init__(self, progress: Progress, place: Place, max_bytes: int) -> None:
        self._progress = progress
        self._place = place
        self._max_bytes = max_bytes
        self._parser = SSEParser(max_bytes)
        self._assembler = ReplyAssembler()
        self._pending: list[Delta] = []
        self._reported_usage: Usage | None = None
        self._heard = False
        self._done = False
        self.sent = False

    # What the transport reports.

    def connected(self) -> None:
        self._progress.connected()

    def written(self) -> None:
        self.sent = True
        self._progress.written()

    async def before_read(self) -> None:
        """Hands on what the previous read brought. Waiting here is what stops the upstream read."""
        heard, self._heard = self._heard, False
        if self._pending:
            batch, self._pending = self._pending, []
            await self._progress.deltas(batch)
        elif heard:
            self._progress.alive()
        usage = self._assembler.usage
        if usage is not None and usage != self._reported_usage:
            self._reported_usage = usage
            self._progress.usage(usage)

    def heard(self) -> None:
        """Bytes of a body came."""
        self._heard = True

    # What the body says.

    async def read_reply(self, body: AsyncIterator[bytes], content_type: str) -> ModelReply:
        """The reply of a 200. Stops at the stream's end marker; what follows it is left unread."""
        head = b""
        form: Form | None = None
        try:
            async for chunk in body:
                self._heard = True
                if form is None:
                    head += chunk
                    form = form_of(head, content_type)
                    chunk = head
                if form == "stream":
                    self._feed(chunk)
                    if self._done:
                        break
                elif form == "document":
                    return await self._read_document(chunk, body)
                elif form == "other":
                    raise self._unavailable(f"something that is no event stream: {self._place.quote(_text(head))}")
            if form is None:
                raise self._unavailable("an empty body" if not head.strip() else "no event stream")
            last = self._parser.finish()
            if last is not None and not self._done:
                self._last_event(last)
        except httpx2.TransportError as exc:
            if not self._assembler.finished:
                raise self._truncated(f"the connection broke ({_why(exc)})") from exc
        except StreamTooLong as exc:
            raise self._unavailable(str(exc)) from None
        return await self._finish()

    async def _read_document(self, chunk: bytes, body: AsyncIterator[bytes]) -> ModelReply:
        parts, size = [chunk], len(chunk)
        async for chunk in body:
            self._heard = True
            parts.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise self._unavailable(f"a document longer than {self._max_bytes} bytes")
        data = b"".join(parts)
        try:
            wire = decode_chunk(data)
        except NotJSON:
            raise self._unavailable(f"a document that is no JSON: {self._place.quote(_text(data))}") from None
        if wire is None or not (wire.choices or wire.error or wire.object == "error"):
            raise self._unavailable(f"a document that is no chat completion: {self._place.quote(_text(data))}")
        self._take(wire, data)
        return await self._finish()

    def _feed(self, chunk: bytes) -> None:
        for event in self._parser.feed(chunk):
            try:
                self._event(event)
            except NotJSON:
                raise self._truncated(f"it sent a chunk that is no JSON: {self._quote(event)}") from None
            if self._done:
                return

    def _last_event(self, event: ServerEvent) -> None:
        try:
            self._event(event)
        except NotJSON:
            # Half a chunk at the end of a stream: whether anything is missing is for `_finish` to say.
            return

    def _event(self, event: ServerEvent) -> None:
        data = event.data
        if data[:1] != b"{":
            data = data.strip()
            if data == b"[DONE]":
                self._done = True
                return
            if not data:
                return
        if event.name == "error":
            raise self._reported(data)
        wire = decode_chunk(data)
        if wire is not None:
            self._take(wire, data)

    def _take(self, wire: ChunkWire, data: bytes) -> None:
        if wire.error or wire.object == "error":
            raise self._reported(data)
        delta = self._assembler.add(wire)
        if delta is not None:
            self._pending.append(delta)

    async def _finish(self) -> ModelReply:
        rest = self._assembler.finish()
        if rest is not None:
            self._pending.append(rest)
        self._heard = False
        await self.before_read()
        if not self._assembler.finished:
            raise self._truncated("the stream ended without a finish reason")
        return self._assembler.reply()

    # Errors.

    def _reported(self, data: bytes) -> ModelError:
        """The error that the server put into its answer; what is no JSON is quoted as it is."""
        try:
            value = loads(data)
        except NotJSON:
            value = _text(data)
        return error_from_event(value, self._place, self._assembler.usage, self._assembler.partial)

    def _quote(self, event: ServerEvent) -> str:
        return self._place.quote(_text(event.data))

    def _truncated(self, why: str) -> Truncated:
        return Truncated(
            f"the answer of {self._place.host} is incomplete: {why}",
            status=200,
            usage=self._assembler.usage,
            partial=self._assembler.partial,
        )

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(
            f"{self._place.host} answered 200 with {what}",
            status=200,
            usage=self._assembler.usage,
            partial=self._assembler.partial,
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _why(exc: Exception) -> str:
    return str(exc).rstrip(".") or type(exc).__name__
