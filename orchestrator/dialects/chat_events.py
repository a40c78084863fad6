"""An answer in chat completions as the events of Anthropic's messages dialect.

The order is the provider's: `message_start`, a `ping`, then block after block (`content_block_start`, its deltas,
`content_block_stop`), one open at a time, then `message_delta` with the stop reason and the usage, and `message_stop`.
Chat says the usage after the end, so the last two wait for the stream's own end; `message_start` has to name numbers
that nobody knows yet, and names 0. The cumulative ones of `message_delta` replace them.

| finish reason                            | stop reason  |
|------------------------------------------|--------------|
| `stop`                                   | `end_turn`   |
| `tool_calls`, or `stop` with tool calls  | `tool_use`   |
| `length`                                 | `max_tokens` |
| `content_filter`, or a `refusal`         | `refusal`    |

Only the first choice is read: a request of the messages dialect asks for no other.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from agents.messages import FinishReason, Usage, WireEvent, WireRequest
from orchestrator.dialects.chat_tools import ToolCallAssembler
from orchestrator.dialects.chat_wire import (
    FINISH_REASONS,
    ChunkWire,
    DeltaWire,
    decode_chunk,
    latest_usage,
    normalise_usage,
)
from orchestrator.dialects.messages_blocks import BlockStream
from orchestrator.dialects.messages_wire import named_event
from orchestrator.dialects.text import TextJoiner

_STOP_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class _Named(Struct):
    id: str | None = None


_named = msgspec.json.Decoder(_Named)


def new_stem() -> str:
    """The part of an id that no other answer has."""
    return secrets.token_hex(12)


class ChatToMessages:
    """A `base.Translator`. `new_id` serves answers and tool calls that name no id of their own."""

    def __init__(self, model: str, wire: WireRequest, new_id: Callable[[], str] = new_stem) -> None:
        self._model = model
        self._new_id = new_id
        self._calls = ToolCallAssembler(lambda: f"toolu_{new_id()}")
        self._blocks = BlockStream()
        self._text = TextJoiner()
        self._thoughts = TextJoiner()
        self._started = False
        self._finish: str | None = None
        self._refused = False
        self._usage: Usage | None = None
        self._ended = False

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        if event.data == b"[DONE]":
            return self.end()
        chunk = decode_chunk(event.data)
        if chunk is None or self._ended:
            return ()
        events = [] if self._started else self._start(chunk, event.data)
        if chunk.usage is not None:
            self._usage = latest_usage(self._usage, normalise_usage(chunk.usage))
        for choice in chunk.choices or ():
            if choice.index:
                continue
            delta = choice.delta or choice.message
            if delta is not None:
                self._add(delta)
            if choice.finish_reason:
                self._finish = choice.finish_reason
                self._close()
        events.extend(self._blocks.take())
        return events

    def end(self) -> Sequence[WireEvent]:
        if self._ended:
            return ()
        self._ended = True
        events = [] if self._started else self._start(ChunkWire(), b"{}")
        self._close()
        events.extend(self._blocks.take())
        delta = {"stop_reason": _STOP_REASONS[self._reason()], "stop_sequence": None}
        events.append(named_event("message_delta", delta=delta, usage=self._usage_members()))
        events.append(named_event("message_stop"))
        return events

    def _start(self, chunk: ChunkWire, data: bytes) -> list[WireEvent]:
        self._started = True
        try:
            name = _named.decode(data).id
        except msgspec.DecodeError:
            name = None
        stem = name.removeprefix("chatcmpl-") if name else self._new_id()
        message: dict[str, Any] = {
            "id": f"msg_{stem.removeprefix('msg_')}",
            "type": "message",
            "role": "assistant",
            "model": chunk.model or self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return [named_event("message_start", message=message), named_event("ping")]

    def _close(self) -> None:
        self._think(self._thoughts.finish())
        self._say(self._text.finish())
        self._blocks.close()

    def _think(self, text: str) -> None:
        if text:
            self._blocks.think(text)

    def _say(self, text: str) -> None:
        if text:
            self._blocks.say(text)

    def _add(self, delta: DeltaWire) -> None:
        # Some servers send both names with the same text.
        self._think(self._thoughts.add(delta.reasoning_content or delta.reasoning or ""))
        if delta.refusal:
            self._refused = True
        self._say(self._text.add((delta.content or "") + (delta.refusal or "")))
        for fragment in delta.tool_calls or ():
            piece = self._calls.add(fragment)
            if piece is not None:
                self._blocks.call(piece)

    def _reason(self) -> FinishReason:
        reason = FINISH_REASONS.get((self._finish or "").lower(), "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        return "content_filter" if reason == "stop" and self._refused else reason

    def _usage_members(self) -> dict[str, Any]:
        usage = self._usage or Usage()
        members = {
            "input_tokens": usage.input,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output or 0,
        }
        return {name: value for name, value in members.items() if value is not None}
