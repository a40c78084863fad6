"""One answer of the simulated model, token by token, before it is streamed."""

import msgspec

from agents.messages import Delta, FinishReason, Message, ToolCall, ToolCallDelta
from orchestrator.backends.simulated.wishes import ChoiceDelta


class Plan(msgspec.Struct):
    """One answer, token by token, before it is streamed. Durations in seconds, rates in tokens per second.

    `tokens[i]` is the text of token i, the first `thinking` of them thought aloud; for tool calls `heads` says at which
    token each call begins, and what comes before the first is said. `stopped_by` is the stop sequence that ended it.
    `choice` numbers the answers to one request, and `others` are those after the first.
    """

    input_tokens: int
    max_output: int
    tokens: list[str]
    finish_reason: FinishReason
    delay: float
    rate: float
    heads: list[tuple[int, str, str]] = []
    cached: int = 0
    written: int | None = None
    thinking: int = 0
    stopped_by: str | None = None
    choice: int = 0
    others: list["Plan"] = []

    @property
    def output_tokens(self) -> int:
        """What the request's answers are together."""
        return len(self.tokens) + sum(len(other.tokens) for other in self.others)

    def deltas(self, start: int, end: int) -> tuple[Delta, ...]:
        """What tokens [start, end) add to the answer."""
        cut = min(max(start, self.thinking), end)
        found: list[Delta] = []
        if start < cut:
            found.append(Delta(reasoning="".join(self.tokens[start:cut])))
        if cut < end:
            found.append(self._spoken(cut, end))
        if self.choice:
            return tuple(ChoiceDelta(d.text, d.reasoning, d.tool_calls, choice=self.choice) for d in found)
        return tuple(found)

    def _spoken(self, start: int, end: int) -> Delta:
        if not self.heads:
            return Delta("".join(self.tokens[start:end]))
        text = "".join(self.tokens[start : min(end, self.heads[0][0])])
        found = []
        for index, (first, call_id, name) in enumerate(self.heads):
            last = self.heads[index + 1][0] if index + 1 < len(self.heads) else len(self.tokens)
            low, high = max(start, first), min(end, last)
            if low < high:
                arguments = "".join(self.tokens[low:high])
                opens = low == first
                found.append(ToolCallDelta(index, call_id if opens else "", name if opens else "", arguments))
        return Delta(text, tool_calls=tuple(found))

    def message(self) -> Message:
        """The whole answer."""
        reasoning = "".join(self.tokens[: self.thinking])
        if not self.heads:
            return Message("assistant", "".join(self.tokens[self.thinking :]), reasoning=reasoning)
        ends = [head[0] for head in self.heads[1:]] + [len(self.tokens)]
        calls = [
            ToolCall(call_id, name, "".join(self.tokens[first:end]))
            for (first, call_id, name), end in zip(self.heads, ends, strict=True)
            if first < len(self.tokens)
        ]
        said = "".join(self.tokens[self.thinking : self.heads[0][0]])
        return Message("assistant", said, tuple(calls), reasoning=reasoning)

    def malformed(self) -> tuple[str, ...]:
        """The ids of calls whose arguments `max_tokens` cut short."""
        if self.finish_reason != "length":
            return ()
        return tuple(call.id for call in self.message().tool_calls if not call.arguments.endswith("}"))
