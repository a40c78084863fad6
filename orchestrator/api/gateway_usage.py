"""Usage in a `chat` stream: one last chunk of its own for a program that asked for it, none for one that did not.

The daemon always asks its backends for usage, which it needs for its books, and backends differ in where they put it:
on a chunk of its own with empty (or null) choices, as OpenAI does, or on the chunk that has the finish reason. A
program gets OpenAI's form from all of them: with `stream_options.include_usage` exactly one chunk with usage and empty
choices, the last; without, no usage at all.

Only chunks in whose bytes the word stands beside something other than null are decoded; all others are passed by.

Source: the OpenAI API reference, "Create chat completion", `stream_options`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from agents.messages import WireEvent

_SAYS_USAGE: Final = re.compile(rb'"usage"\s*+:\s*+\{')

_decoder = msgspec.json.Decoder()


class UsageChunks:
    """Passes the chunks of one stream on, and holds usage back until the end."""

    __slots__ = ("_include", "_last")

    def __init__(self, *, include: bool) -> None:
        self._include = include
        self._last: WireEvent | None = None

    def feed(self, events: Iterable[WireEvent]) -> Iterator[WireEvent]:
        """What the program sees of these events now."""
        for event in events:
            if _SAYS_USAGE.search(event.data) is None:
                yield event
                continue
            kept = self._without_usage(event)
            if kept is not None:
                yield kept

    def end(self) -> Iterator[WireEvent]:
        """The last chunk, once the stream has ended whole."""
        if self._last is not None and self._include:
            yield self._last

    def _without_usage(self, event: WireEvent) -> WireEvent | None:
        try:
            chunk: Any = _decoder.decode(event.data)
        except msgspec.DecodeError:
            return event
        if not isinstance(chunk, dict) or not isinstance(chunk.get("usage"), dict):
            return event
        if not chunk.get("choices"):
            self._last = event if chunk.get("choices") == [] else _encoded(event, {**chunk, "choices": []})
            return None
        self._last = _encoded(event, {**chunk, "choices": []})
        rest = {name: value for name, value in chunk.items() if name != "usage"}
        return _encoded(event, {**rest, "usage": None} if self._include else rest)


def _encoded(event: WireEvent, chunk: dict[str, Any]) -> WireEvent:
    return WireEvent(event.event, msgspec.json.encode(chunk))
