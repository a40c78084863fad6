"""One request and its answer: body bytes in, deltas to the attempt, one reply or one error out.

What the server sends is judged by its first bytes rather than by its content type alone, since servers that ignore
`stream: true` answer with one JSON document and proxies answer with HTML. What is made of an event or a document is
the `Answer`'s business: one for canonical requests, another for those of programs, which are relayed.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import httpx2

from agents.errors import Truncated, Unavailable
from agents.messages import Delta, ModelReply, Usage
from orchestrator.backends.base import Progress
from orchestrator.backends.place import Place
from orchestrator.backends.sse import ServerEvent, SSEParser, StreamTooLong
from orchestrator.dialects.chat_wire import NotJSON

Form = Literal["stream", "document", "other"]

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = 6


class NotAnAnswer(ValueError):
    """A document that is JSON but nothing the dialect knows; the text says what it should have been."""


class Answer(Protocol):
    """What is made of the body of a successful response. Nothing in it waits.

    `usage` is what was reported so far, `partial` the text so far. Raises a `ModelError` for an error that the server
    put into its answer, `NotJSON` for what is none, `NotAnAnswer` for a document of something else.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial(self) -> str: ...

    @property
    def finished(self) -> bool:
        """Whether the server said why the answer ended; without that it is not complete."""
        ...

    def event(self, event: ServerEvent) -> bool:
        """Takes in one event; True for the stream's end marker."""
        ...

    def document(self, data: bytes) -> None:
        """Takes in a whole answer in one piece."""
        ...

    def end(self) -> None:
        """No more comes."""
        ...

    def take(self) -> Sequence[Delta]:
        """What is to be handed on now, and not again."""
        ...

    def reply(self) -> ModelReply:
        """The whole reply; called only when `finished`."""
        ...


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
    """The state of one request. It is the transport's `Watch`, and it reads the body of a successful response.

    `max_bytes` bounds one event, `max_document_bytes` an answer in one piece (None: the same).
    """

    def __init__(
        self, progress: Progress, place: Place, max_bytes: int, answer: Answer, max_document_bytes: int | None = None
    ) -> None:
        self._progress = progress
        self._place = place
        self._max_document_bytes = max_bytes if max_document_bytes is None else max_document_bytes
        self._parser = SSEParser(max_bytes)
        self._answer = answer
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
        batch = self._answer.take()
        if batch:
            await self._progress.deltas(batch)
        elif heard:
            self._progress.alive()
        usage = self._answer.usage
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
            if not self._answer.finished:
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
            if size > self._max_document_bytes:
                raise self._unavailable(f"a document longer than {self._max_document_bytes} bytes")
        data = b"".join(parts)
        try:
            self._answer.document(data)
        except NotJSON:
            raise self._unavailable(f"a document that is no JSON: {self._place.quote(_text(data))}") from None
        except NotAnAnswer as exc:
            raise self._unavailable(f"a document that is {exc}: {self._place.quote(_text(data))}") from None
        return await self._finish()

    def _feed(self, chunk: bytes) -> None:
        for event in self._parser.feed(chunk):
            try:
                self._done = self._answer.event(event)
            except NotJSON:
                raise self._truncated(f"it sent a chunk that is no JSON: {self._quote(event)}") from None
            except NotAnAnswer as exc:
                raise self._unavailable(f"an event that is {exc}: {self._quote(event)}") from None
            if self._done:
                return

    def _last_event(self, event: ServerEvent) -> None:
        try:
            self._done = self._answer.event(event)
        except (NotJSON, NotAnAnswer):
            # Half a chunk at the end of a stream: whether anything is missing is for `_finish` to say.
            return

    async def _finish(self) -> ModelReply:
        self._answer.end()
        self._heard = False
        await self.before_read()
        if not self._answer.finished:
            raise self._truncated("the stream ended without a finish reason")
        return self._answer.reply()

    # Errors.

    def _quote(self, event: ServerEvent) -> str:
        return self._place.quote(_text(event.data))

    def _truncated(self, why: str) -> Truncated:
        return Truncated(
            f"the answer of {self._place.host} is incomplete: {why}",
            status=200,
            usage=self._answer.usage,
            partial=self._answer.partial,
        )

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(
            f"{self._place.host} answered 200 with {what}",
            status=200,
            usage=self._answer.usage,
            partial=self._answer.partial,
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _why(exc: Exception) -> str:
    return str(exc).rstrip(".") or type(exc).__name__
