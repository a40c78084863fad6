"""An answer in Anthropic's messages dialect as chunks of chat completions.

The first chunk has the role, the one with the finish reason comes with `message_delta`, and after it, for a program
that asked, exactly one with the usage and no choices; then `[DONE]`.

| event                                        | what becomes of it                                              |
|----------------------------------------------|-----------------------------------------------------------------|
| text, `thinking`                             | `content`, `reasoning_content`                                  |
| `tool_use`, its input                        | `tool_calls` with an index of their own, `arguments`            |
| a tool's input that never came               | `{}`: programs read the arguments as JSON                       |
| signatures, citations, redacted thinking     | nothing: a chunk has no member for them                         |
| blocks of tools that the provider runs itself | nothing: no chat request asks for such                          |
| `ping`                                       | nothing                                                         |

The stop reasons are those of `messages_reader`.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agents.messages import FinishReason, Usage, WireEvent, WireRequest
from orchestrator.dialects.messages_reader import STOP_REASONS
from orchestrator.dialects.messages_wire import (
    BlockWire,
    DeltaWire,
    EventWire,
    UsageWire,
    decode_event,
    larger,
    normalise_usage,
)
from orchestrator.dialects.same import DONE, usage_wish
from orchestrator.dialects.text import encoded, scrub


class MessagesToChat:
    """A `base.Translator`. `now` gives the time of an answer, in seconds since the epoch."""

    def __init__(self, model: str, wire: WireRequest, now: Callable[[], float] = time.time) -> None:
        self._with_usage = bool(usage_wish(wire).include_usage)
        self._head = {
            "id": "",
            "object": "chat.completion.chunk",
            "created": int(now()),
            "model": model,
        }
        self._started = False
        self._calls: dict[int, _Call] = {}
        self._made = 0
        self._usage: Usage | None = None
        self._stop: str | None = None
        self._finished = False
        self._done = False

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        if event.event == "ping":
            return ()
        wire = decode_event(event.data)
        if wire is None:
            return ()
        if wire.type == "content_block_delta":
            return self._piece(wire.index, wire.delta) if wire.delta is not None else ()
        if wire.type == "content_block_start":
            return self._block(wire.index, wire.content_block) if wire.content_block is not None else ()
        if wire.type == "content_block_stop":
            return self._block_end(wire.index)
        return self._frame(wire)

    def end(self) -> Sequence[WireEvent]:
        if self._done:
            return ()
        self._done = True
        events = [*self._finish()]
        if self._with_usage and self._usage is not None:
            events.append(self._chunk([], usage=_usage_members(self._usage)))
        events.append(DONE)
        return events

    def _frame(self, wire: EventWire) -> Sequence[WireEvent]:
        if wire.type == "message_start" and wire.message is not None:
            message = wire.message
            self._head["id"] = f"chatcmpl-{(message.id or secrets.token_hex(12)).removeprefix('msg_')}"
            if message.model:
                self._head["model"] = scrub(message.model)
            self._report(message.usage, complete=False)
            return self._begin()
        if wire.type == "message_delta":
            self._report(wire.usage, complete=True)
            self._stop = (wire.delta.stop_reason if wire.delta is not None else None) or self._stop
            return self._finish() if self._stop else ()
        return self.end() if wire.type == "message_stop" else ()

    def _begin(self) -> list[WireEvent]:
        if self._started:
            return []
        self._started = True
        self._head["id"] = self._head["id"] or f"chatcmpl-{secrets.token_hex(12)}"
        return [self._says({"role": "assistant", "content": ""})]

    def _finish(self) -> list[WireEvent]:
        if self._finished:
            return []
        self._finished = True
        return [*self._begin(), self._says({}, self._reason())]

    def _reason(self) -> FinishReason:
        reason = STOP_REASONS.get(self._stop or "", "stop")
        if reason in ("stop", "tool_calls"):
            return "tool_calls" if self._made else "stop"
        return reason

    def _block(self, index: int | None, block: BlockWire) -> Sequence[WireEvent]:
        if block.type == "tool_use":
            return [*self._begin(), self._open(index, block)]
        if block.type == "text" and block.text:
            return [*self._begin(), self._says({"content": block.text})]
        if block.type == "thinking" and block.thinking:
            return [*self._begin(), self._says({"reasoning_content": block.thinking})]
        return ()

    def _open(self, index: int | None, block: BlockWire) -> WireEvent:
        call = self._calls[index or 0] = _Call(self._made)
        self._made += 1
        call.whole = _whole_input(block.input)
        function = {"name": block.name or "", "arguments": ""}
        call_id = block.id or f"toolu_{secrets.token_hex(12)}"
        return self._calls_tool({"index": call.place, "id": call_id, "type": "function", "function": function})

    def _piece(self, index: int | None, delta: DeltaWire) -> Sequence[WireEvent]:
        if delta.type == "text_delta" and delta.text:
            return [*self._begin(), self._says({"content": delta.text})]
        if delta.type == "thinking_delta" and delta.thinking:
            return [*self._begin(), self._says({"reasoning_content": delta.thinking})]
        call = self._calls.get(index or 0)
        if delta.type != "input_json_delta" or not delta.partial_json or call is None:
            return ()
        call.spoke = True
        return [self._arguments(call, delta.partial_json)]

    def _block_end(self, index: int | None) -> Sequence[WireEvent]:
        call = self._calls.pop(index or 0, None)
        return () if call is None or call.spoke else [self._arguments(call, call.whole)]

    def _arguments(self, call: "_Call", text: str) -> WireEvent:
        return self._calls_tool({"index": call.place, "function": {"arguments": text}})

    def _calls_tool(self, call: dict[str, Any]) -> WireEvent:
        return self._says({"tool_calls": [call]})

    def _says(self, delta: dict[str, Any], finish: FinishReason | None = None) -> WireEvent:
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> WireEvent:
        chunk: dict[str, Any] = {**self._head, "choices": choices}
        if self._with_usage:
            chunk["usage"] = usage
        return WireEvent("", encoded(chunk))

    def _report(self, usage: UsageWire | None, *, complete: bool) -> None:
        if usage is not None:
            self._usage = larger(self._usage, normalise_usage(usage, complete=complete))


class _Call:
    """A tool call whose block is open."""

    __slots__ = ("place", "spoke", "whole")

    def __init__(self, place: int) -> None:
        self.place = place
        self.spoke = False
        self.whole = "{}"


def _whole_input(raw: msgspec.Raw) -> str:
    """The input that a block began with; nearly always empty."""
    text = bytes(raw).decode("utf-8", "replace")
    return text if text.startswith("{") else "{}"


def _usage_members(usage: Usage) -> dict[str, Any]:
    members: dict[str, Any] = {
        "prompt_tokens": usage.all_input or 0,
        "completion_tokens": usage.output or 0,
        "total_tokens": (usage.all_input or 0) + (usage.output or 0),
    }
    details = {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write}
    known = {name: value for name, value in details.items() if value is not None}
    if known:
        members["prompt_tokens_details"] = known
    return members
