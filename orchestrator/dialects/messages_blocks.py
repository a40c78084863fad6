"""Content blocks of a message, made of an answer whose parts may alternate: one is open at a time, the others wait.

Text and thinking are closed as soon as something else begins. A tool call is closed when its arguments are a whole JSON
object and another block has something to say; until then the others' pieces are held. So calls that come one after the
other, as nearly all do, are passed on piece by piece, and none is ever cut in two.
"""

from typing import Any

from agents.messages import ToolCallDelta, WireEvent
from orchestrator.dialects.chat_tools import is_json_object
from orchestrator.dialects.messages_wire import named_event


class _Block:
    """A block: what it is called, what it has still to say, and whether it may be closed."""

    __slots__ = ("arguments", "kind", "pieces", "start")

    def __init__(self, kind: str, start: dict[str, Any]) -> None:
        self.kind = kind
        self.start = start
        self.pieces: list[str] = []
        self.arguments: list[str] = []

    def add(self, piece: str) -> None:
        if piece:
            self.pieces.append(piece)
            if self.kind == "tool_use":
                self.arguments.append(piece)

    def closable(self) -> bool:
        if self.kind != "tool_use":
            return True
        # The first test is for calls in many pieces: only their last one ends in a brace, as a rule.
        return (
            bool(self.arguments) and self.arguments[-1].rstrip()[-1:] == "}" and is_json_object("".join(self.arguments))
        )

    def deltas(self) -> list[dict[str, Any]]:
        """What is to be said now."""
        pieces, self.pieces = self.pieces, []
        if self.kind == "tool_use":
            return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return [{"type": f"{self.kind}_delta", self.kind: piece} for piece in pieces]


class BlockStream:
    """Takes pieces in any order, gives events in the dialect's."""

    def __init__(self) -> None:
        self._waiting: list[_Block] = []
        """The open block and those that come after it."""
        self._calls: dict[int, _Block] = {}
        self._index = 0
        self._open = False
        self._events: list[WireEvent] = []

    def say(self, text: str) -> None:
        self._last("text", {"type": "text", "text": ""}).add(text)
        self._advance()

    def think(self, text: str) -> None:
        self._last("thinking", {"type": "thinking", "thinking": "", "signature": ""}).add(text)
        self._advance()

    def call(self, piece: ToolCallDelta) -> None:
        """A fragment of a tool call; its first has the name and the id."""
        block = self._calls.get(piece.index)
        if block is None:
            start = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
            block = self._calls[piece.index] = _Block("tool_use", start)
            self._waiting.append(block)
        elif piece.name:
            block.start["name"] = piece.name
        block.add(piece.arguments)
        self._advance()

    def close(self) -> None:
        """No more comes: whatever waits is said, in the order in which it began."""
        while self._waiting:
            self._speak()
            self._stop()

    def take(self) -> list[WireEvent]:
        """The events made since the last time."""
        events, self._events = self._events, []
        return events

    def _last(self, kind: str, start: dict[str, Any]) -> _Block:
        if not self._waiting or self._waiting[-1].kind != kind:
            self._waiting.append(_Block(kind, start))
        return self._waiting[-1]

    def _advance(self) -> None:
        while len(self._waiting) > 1 and self._waiting[0].closable():
            self._speak()
            self._stop()
        self._speak()

    def _speak(self) -> None:
        block = self._waiting[0]
        if not self._open:
            self._open = True
            self._events.append(named_event("content_block_start", index=self._index, content_block=block.start))
        for delta in block.deltas():
            self._events.append(named_event("content_block_delta", index=self._index, delta=delta))

    def _stop(self) -> None:
        self._waiting.pop(0)
        self._events.append(named_event("content_block_stop", index=self._index))
        self._index += 1
        self._open = False
