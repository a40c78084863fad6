"""Reads the events of one answer in Anthropic's messages dialect: usage, why it ended, its text, and errors inside.

| stop reason                                   | finish reason                                     |
|-----------------------------------------------|---------------------------------------------------|
| `end_turn`, `stop_sequence`                   | `stop`                                            |
| `tool_use`                                    | `tool_calls`                                      |
| `max_tokens`, `model_context_window_exceeded` | `length`                                          |
| `pause_turn`                                  | `length`: the turn is not over                    |
| `refusal`                                     | `content_filter`                                  |
| one that is not known                         | `stop`, or `tool_calls` where tools are called    |
"""

from collections.abc import Mapping
from typing import Final

from agents.messages import FinishReason, Usage, WireEvent
from orchestrator.dialects.failures import Failed, broke_off
from orchestrator.dialects.messages_wire import (
    BlockWire,
    DeltaWire,
    EventWire,
    UsageWire,
    decode_event,
    larger,
    normalise_usage,
)

STOP_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "content_filter",
}

_BYTES_PER_TOKEN = 4


class MessagesReader:
    """A `base.Reader`. The answer is whole when a stop reason was said, or at `message_stop`."""

    def __init__(self, failed: Failed = broke_off) -> None:
        self._failed = failed
        self._parts: list[str] = []
        self._calls = False
        self._stop: str | None = None
        self._ended = False
        self.usage: Usage | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def complete(self) -> bool:
        return self._ended or self._stop is not None

    @property
    def finish(self) -> FinishReason | None:
        if not self.complete:
            return None
        reason = STOP_REASONS.get(self._stop or "", "stop")
        if reason in ("stop", "tool_calls"):
            return "tool_calls" if self._calls else "stop"
        return reason

    def feed(self, event: WireEvent) -> int:
        """See `base.Reader`. Raises `chat_wire.NotJSON` for an event that is no JSON."""
        if event.event == "ping":
            return 0
        wire = decode_event(event.data)
        if wire is None:
            return 0
        if wire.type == "content_block_delta":
            return self._piece(wire.delta) if wire.delta is not None else 0
        if wire.type == "content_block_start":
            return self._block(wire.content_block) if wire.content_block is not None else 0
        if wire.type == "error" or event.event == "error" or wire.error:
            raise self._failed(wire.error or {}, self.usage, self.text)
        self._frame(wire)
        return 0

    def _frame(self, wire: EventWire) -> None:
        if wire.type == "message_start" and wire.message is not None:
            self._report(wire.message.usage, complete=False)
        elif wire.type == "message_delta":
            self._stop = (wire.delta.stop_reason if wire.delta is not None else None) or self._stop
            self._report(wire.usage, complete=True)
        elif wire.type == "message_stop":
            self._ended = True

    def _report(self, usage: UsageWire | None, *, complete: bool) -> None:
        if usage is not None:
            self.usage = larger(self.usage, normalise_usage(usage, complete=complete))

    def _block(self, block: BlockWire) -> int:
        self._calls = self._calls or block.type == "tool_use"
        if block.text:
            self._parts.append(block.text)
        size = len(block.text or "") + len(block.thinking or "") + len(block.name or "")
        return max(1, size // _BYTES_PER_TOKEN) if size else 0

    def _piece(self, delta: DeltaWire) -> int:
        if delta.text:
            self._parts.append(delta.text)
        size = len(delta.text or "") + len(delta.thinking or "") + len(delta.partial_json or "")
        return max(1, size // _BYTES_PER_TOKEN) if size else 0
