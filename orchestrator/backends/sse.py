"""Server-sent events, parsed from bytes as they come: pure, no I/O, any chunking gives the same events.

Source: WHATWG HTML Living Standard, section 9.2.6 "Interpreting an event stream".

- Only CR, LF and CRLF end a line. U+2028, U+0085, form feed and the like are text; splitting on them cuts JSON in two.
- A line is decoded only once it is whole, so a UTF-8 sequence split across reads is never seen in halves. `data` stays
  bytes, since its reader is a JSON decoder that takes bytes.
- Two departures, both for servers that are careless at the end of a stream: `finish` also yields an event whose closing
  blank line, or last line end, never came. Whether its data makes sense is for the reader to say.
"""

from msgspec import Struct

MAX_LINE_BYTES = 8 * 1024 * 1024
"""One line holds one chunk of an answer; whole answers in one chunk stay far below this."""

_BOM = b"\xef\xbb\xbf"
_LF = 10


class ServerEvent(Struct, frozen=True):
    """One event: its type (`message` unless the server named one), its data lines joined by LF, the last id seen."""

    data: bytes
    name: str = "message"
    id: str = ""


class StreamTooLong(ValueError):
    """A line, or the data lines of one event together, exceeded the bound."""


class SSEParser:
    """Feed it what was read, get the events that became whole. `max_bytes` bounds one line and one event's data."""

    __slots__ = ("_at_start", "_data", "_id", "_lines_size", "_max", "_name", "_skip_lf", "_tail", "_tail_size")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_bytes
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._skip_lf = False
        self._at_start = True
        self._data: list[bytes] = []
        self._lines_size = 0
        self._name = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes. Raises `StreamTooLong`."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            # Joined only when a line end comes, so that a long line in small pieces costs linear time.
            self._hold(chunk)
            return []
        if self._tail:
            self._tail.append(chunk)
            chunk = b"".join(self._tail)
            self._tail = []
            self._tail_size = 0
        # bytes.splitlines knows CR, LF and CRLF only, unlike str.splitlines.
        lines = chunk.splitlines()
        if chunk.endswith(b"\r"):
            self._skip_lf = True
        elif not chunk.endswith(b"\n"):
            self._hold(lines.pop())
        events: list[ServerEvent] = []
        for line in lines:
            self._line(line, events)
        return events

    def finish(self) -> ServerEvent | None:
        """What an end of the stream leaves: an event without its blank line, or None."""
        events: list[ServerEvent] = []
        if self._tail:
            line = b"".join(self._tail)
            self._tail = []
            self._tail_size = 0
            self._line(line, events)
        self._dispatch(events)
        return events[0] if events else None

    def _hold(self, piece: bytes) -> None:
        self._tail.append(piece)
        self._tail_size += len(piece)
        if self._tail_size > self._max:
            raise StreamTooLong(f"a line of the event stream is longer than {self._max} bytes")

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if len(line) > self._max:
            raise StreamTooLong(f"a line of the event stream is longer than {self._max} bytes")
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        field, colon, value = line.partition(b":")
        if colon and value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._lines_size += len(value) + 1
            if self._lines_size > self._max + 1:
                raise StreamTooLong(f"one event of the stream is longer than {self._max} bytes")
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        # A comment has an empty field name; `retry` concerns clients that reconnect, which a paid call never does.

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(ServerEvent(data, self._name or "message", self._id))
            self._data = []
            self._lines_size = 0
        self._name = ""
