"""Reads the chunks of one answer in the chat dialect: usage, why it ended, its text, and errors inside of it."""

from agents.messages import FinishReason, Usage, WireEvent
from orchestrator.dialects.chat_wire import (
    BROKEN_OFF,
    FINISH_REASONS,
    ChoiceWire,
    DeltaWire,
    decode_chunk,
    error_in,
    latest_usage,
    normalise_usage,
)
from orchestrator.dialects.failures import Failed, broke_off

_BYTES_PER_TOKEN = 4


class ChatReader:
    """A `base.Reader`. The answer is whole when every choice that spoke has a finish reason that is one.

    A server that calls an answer's end `stop` although it calls tools means `tool_calls`, and the other way round. A
    whole document in place of chunks is read like one large chunk.

    `plain` says of the latest chunk that it has choices, and neither usage nor tool calls: nothing in it has to be put
    right for a program of this dialect.
    """

    def __init__(self, failed: Failed = broke_off) -> None:
        self._failed = failed
        self._parts: list[str] = []
        self._calls = False
        self._refused = False
        self._reasons: dict[int, str | None] = {}
        self.usage: Usage | None = None
        self.plain = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def complete(self) -> bool:
        return bool(self._reasons) and all(
            reason is not None and reason.lower() not in BROKEN_OFF for reason in self._reasons.values()
        )

    @property
    def finish(self) -> FinishReason | None:
        word = next((self._reasons[index] for index in sorted(self._reasons)), None)
        if word is None:
            return None
        reason = FINISH_REASONS.get(word.lower(), "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._calls else "stop"
        return "content_filter" if reason == "stop" and self._refused else reason

    def feed(self, event: WireEvent) -> int:
        """See `base.Reader`. Raises `chat_wire.NotJSON` for a chunk that is no JSON."""
        self.plain = False
        if event.data == b"[DONE]":
            return 0
        chunk = decode_chunk(event.data)
        if chunk is None:
            return 0
        error = error_in(chunk, event.event, event.data)
        if error is not None:
            raise self._failed(error, self.usage, self.text)
        if chunk.usage is not None:
            self.usage = latest_usage(self.usage, normalise_usage(chunk.usage))
        if not chunk.choices:
            return 0
        self.plain = chunk.usage is None
        tokens = 0
        for choice in chunk.choices:
            tokens += self._add(choice)
        return tokens

    def _add(self, choice: ChoiceWire) -> int:
        index = choice.index or 0
        if choice.finish_reason:
            self._reasons[index] = choice.finish_reason
        elif index not in self._reasons:
            self._reasons[index] = None
        delta = choice.delta or choice.message
        return self._count(delta, index) if delta is not None else 0

    def _count(self, delta: DeltaWire, index: int) -> int:
        text = delta.content or ""
        if delta.refusal:
            text += delta.refusal
            self._refused = self._refused or not index
        if text and not index:
            self._parts.append(text)
        size = len(text) + len(delta.reasoning_content or delta.reasoning or "")
        if delta.tool_calls:
            self.plain = False
            for call in delta.tool_calls:
                self._calls = self._calls or not index
                if call.function is not None:
                    size += len(call.function.name or "") + len(call.function.arguments or "")
        return max(1, size // _BYTES_PER_TOKEN) if size else 0
