"""Anthropic's messages from the provider's side: answers put into words.

Source: Anthropic's API reference, "Messages" and "Streaming messages". Content comes in blocks, one after the other:
each is opened, filled and closed before the next one is opened.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from agents.messages import Delta, FinishReason, ToolCallDelta, Usage, WireEvent
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.anthropic import error_object
from orchestrator.backends.simulated.dialect import Events, echo, streamed
from orchestrator.backends.simulated.errors import SimError

_PING = WireEvent("ping", b'{"type": "ping"}')
_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def signature(thinking: str) -> str:
    """What proves that a thought was this provider's: made up, and the same for the same thought."""
    return base64.b64encode(hashlib.blake2b(thinking.encode("utf-8", "surrogatepass")).digest()).decode()


class MessagesWriter:
    """Words one answer. See `Writer`."""

    heartbeat = streamed([_PING])

    def __init__(self, number: int, model: str, x_sim: Any) -> None:
        self._id = f"msg_sim{number:08d}"
        self._model = model
        self._x_sim = x_sim
        self._blocks = 0
        self._open: str | int | None = None
        self._thought: list[str] = []

    def begin(self, usage: Usage) -> Events:
        return [_event("message_start", message=self._message([], None, None, _usage(usage)))]

    def deltas(self, deltas: Sequence[Delta]) -> Events:
        events: Events = []
        for delta in deltas:
            if delta.reasoning:
                events += self._fill("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                self._thought.append(delta.reasoning)
                events.append(self._delta({"type": "thinking_delta", "thinking": delta.reasoning}))
            if delta.text:
                events += self._fill("text", {"type": "text", "text": ""})
                events.append(self._delta({"type": "text_delta", "text": delta.text}))
            for call in delta.tool_calls:
                events += self._tool(call)
        return events

    def _tool(self, call: ToolCallDelta) -> Events:
        block = {"type": "tool_use", "id": tool_id(call.id), "name": call.name, "input": {}}
        opened = self._fill(call.index, block)
        return [*opened, self._delta({"type": "input_json_delta", "partial_json": call.arguments})]

    def _fill(self, kind: str | int, block: dict[str, Any]) -> Events:
        """Makes the block of that kind (or of the tool call of that number) the open one."""
        if self._open == kind:
            return []
        events = self._close()
        self._open = kind
        events.append(_event("content_block_start", index=self._blocks, content_block=block))
        if self._blocks == 0:
            events.append(_PING)
        return events

    def _close(self) -> Events:
        if self._open is None:
            return []
        events: Events = []
        if self._open == "thinking":
            events.append(self._delta({"type": "signature_delta", "signature": signature("".join(self._thought))}))
        events.append(_event("content_block_stop", index=self._blocks))
        self._blocks += 1
        self._open = None
        return events

    def _delta(self, delta: dict[str, Any]) -> WireEvent:
        return _event("content_block_delta", index=self._blocks, delta=delta)

    def end(self, answer: Answer) -> Events:
        events = self._close()
        reason, sequence = _stop(answer)
        members: dict[str, Any] = {"delta": {"stop_reason": reason, "stop_sequence": sequence}}
        usage = _usage(answer.reply.usage)
        if usage is not None:
            members["usage"] = usage
        events += [_event("message_delta", **members)] * max(1, answer.usage_reports)
        return [*events, _event("message_stop")]

    def broken(self, error: SimError) -> Events:
        return [WireEvent("error", msgspec.json.encode(error_object(error)))]

    def document(self, answer: Answer) -> bytes:
        message = answer.reply.message
        content: list[dict[str, Any]] = []
        if message.reasoning:
            content.append(
                {"type": "thinking", "thinking": message.reasoning, "signature": signature(message.reasoning)}
            )
        if message.content:
            content.append({"type": "text", "text": message.content})
        content += [
            {"type": "tool_use", "id": tool_id(call.id), "name": call.name, "input": _input(call.arguments)}
            for call in message.tool_calls
        ]
        usage = _usage(answer.reply.usage) if answer.usage_reports else None
        return msgspec.json.encode(self._message(content, *_stop(answer), usage))

    def _message(
        self, content: list[dict[str, Any]], reason: str | None, sequence: str | None, usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence,
            **echo(self._x_sim),
        }
        if usage is not None:
            found["usage"] = {**usage, "service_tier": "standard"}
        return found


def tool_id(call_id: str) -> str:
    """The id of a tool call as Anthropic forms it."""
    return f"toolu_{call_id.removeprefix('call_')}" if call_id else ""


def _event(name: str, **members: Any) -> WireEvent:
    return WireEvent(name, msgspec.json.encode({"type": name, **members}))


def _stop(answer: Answer) -> tuple[str, str | None]:
    if answer.stopped_by is not None:
        return "stop_sequence", answer.stopped_by
    return _REASONS[answer.reply.finish_reason], None


def _input(arguments: str) -> Any:
    """The arguments as an object; of some that `max_tokens` cut short there is none."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}


def _usage(usage: Usage) -> dict[str, Any] | None:
    if usage.input is None:
        return None
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cached or 0,
        "output_tokens": usage.output or 0,
    }
