"""Chunks of a chat completion put together into deltas and one reply: pure, no I/O.

A whole document goes the same way as a stream (its `message` is one large delta), so both give replies of one shape.
Only choice 0 is read: a model request asks for one answer. Usage that several chunks report (on the finishing chunk
and on a trailing one, or running totals in each) is the latest value of each field, never a sum.
"""

from collections.abc import Callable

from agents.messages import Delta, FinishReason, Message, ModelReply, ToolCallDelta, Usage
from orchestrator.dialects.chat_tools import ToolCallAssembler, is_json_object, new_call_id
from orchestrator.dialects.chat_wire import (
    BROKEN_OFF,
    FINISH_REASONS,
    ChoiceWire,
    ChunkWire,
    DeltaWire,
    latest_usage,
    normalise_usage,
)
from orchestrator.dialects.text import TextJoiner, scrub


class ReplyAssembler:
    """Takes chunks, gives what each adds, and in the end the whole reply."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = TextJoiner()
        self._reasoning_joiner = TextJoiner()
        self._tools = ToolCallAssembler(new_id)
        self._finish: str | None = None
        self._refused = False
        self._model = ""
        self.usage: Usage | None = None

    @property
    def finished(self) -> bool:
        """Whether the server said why the answer ended; without that it is not complete."""
        return self._finish is not None and self._finish.lower() not in BROKEN_OFF

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, chunk: ChunkWire) -> Delta | None:
        """What the chunk adds for a reader; None if that is nothing (a role, usage, an empty string)."""
        if chunk.usage is not None:
            self.usage = latest_usage(self.usage, normalise_usage(chunk.usage))
        if chunk.model and not self._model:
            self._model = scrub(chunk.model)
        if not chunk.choices:
            return None
        delta: Delta | None = None
        for choice in chunk.choices:
            if not choice.index:
                delta = self._add_choice(choice)
        return delta

    def finish(self) -> Delta | None:
        """What was held back, once no more chunks come."""
        text, reasoning = self._text_joiner.finish(), self._reasoning_joiner.finish()
        return self._keep(text, reasoning, ())

    def reply(self) -> ModelReply:
        """The whole reply; call it only when `finished`."""
        calls = self._tools.calls()
        message = Message("assistant", self.partial, calls, reasoning="".join(self._reasoning))
        malformed = tuple(call.id for call in calls if not is_json_object(call.arguments))
        return ModelReply(message, self._reason(), self.usage or Usage(), self._model, malformed)

    def _reason(self) -> FinishReason:
        reason = FINISH_REASONS.get((self._finish or "").lower(), "stop")
        if reason == "stop" and self._tools:
            return "tool_calls"
        if reason == "tool_calls" and not self._tools:
            return "stop"
        if reason == "stop" and self._refused:
            return "content_filter"
        return reason

    def _add_choice(self, choice: ChoiceWire) -> Delta | None:
        if choice.finish_reason:
            self._finish = choice.finish_reason
        wire = choice.delta or choice.message
        return self._add_delta(wire) if wire is not None else None

    def _add_delta(self, wire: DeltaWire) -> Delta | None:
        text = wire.content or ""
        if wire.refusal:
            self._refused = True
            text += wire.refusal
        # Some servers send both names with the same text.
        reasoning = wire.reasoning_content or wire.reasoning or ""
        calls: tuple[ToolCallDelta, ...] = ()
        if wire.tool_calls:
            added = [self._tools.add(call) for call in wire.tool_calls]
            calls = tuple(call for call in added if call is not None)
        return self._keep(
            self._text_joiner.add(text) if text else "",
            self._reasoning_joiner.add(reasoning) if reasoning else "",
            calls,
        )

    def _keep(self, text: str, reasoning: str, calls: tuple[ToolCallDelta, ...]) -> Delta | None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        return Delta(text, reasoning, calls) if text or reasoning or calls else None
