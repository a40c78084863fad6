"""Reads the events of one answer in the responses dialect: usage, why it ended, and its text."""

from agents.errors import ModelError
from agents.messages import FinishReason, Usage, WireEvent
from orchestrator.dialects.chat_wire import loads
from orchestrator.dialects.failures import Failed, broke_off
from orchestrator.dialects.responses_wire import (
    CALLS,
    INCOMPLETE,
    TERMINAL,
    EventWire,
    decode_event,
    decode_response,
    item_type,
    normalise_usage,
)

_BYTES_PER_TOKEN = 4


class ResponsesReader:
    """A `base.Reader`. The answer is whole at `response.completed` and `response.incomplete`, and at nothing else."""

    def __init__(self, failed: Failed = broke_off) -> None:
        self._failed = failed
        self._parts: list[str] = []
        self._calls = False
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def complete(self) -> bool:
        return self.finish is not None

    def feed(self, event: WireEvent) -> int:
        """See `base.Reader`. Raises `chat_wire.NotJSON` for an event that is no JSON."""
        wire = decode_event(event)
        if wire is None:
            return 0
        kind = wire.type
        if wire.delta is not None and kind.endswith(".delta"):
            if kind == "response.output_text.delta":
                self._parts.append(wire.delta)
            return max(1, len(wire.delta) // _BYTES_PER_TOKEN) if wire.delta else 0
        if kind == "response.output_item.added":
            self._calls = self._calls or item_type(wire.item) in CALLS
        elif kind in TERMINAL:
            self._end(wire)
        elif kind == "error" or wire.error:
            raise self._failure(wire.error or event.data)
        return 0

    def _end(self, wire: EventWire) -> None:
        response = decode_response(wire.response)
        self.usage = normalise_usage(response.usage) or self.usage
        if not self._parts and response.text:
            self._parts.append(response.text)
        if wire.type == "response.failed" or response.status in ("failed", "cancelled"):
            raise self._failure(response.error or wire.error)
        if wire.type == "response.incomplete" or response.status == "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details is not None else None
            self.finish = INCOMPLETE.get(reason or "", "length")
        else:
            self.finish = "tool_calls" if self._calls or response.calls else "stop"

    def _failure(self, error: object) -> ModelError:
        """The error that was said. A flat `error` event says it in its own members, beside the type `error`."""
        if isinstance(error, bytes):
            error = _flat(error)
        return self._failed(error, self.usage, self.text)


def _flat(data: bytes) -> object:
    value = loads(data)
    return {name: member for name, member in value.items() if name != "type"} if isinstance(value, dict) else value
