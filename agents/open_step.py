"""A reply that the run has not gone on from yet: its tool calls, each answered exactly once, in the model's order."""

from agents.budget import Exhausted
from agents.messages import Message, ModelReply, ToolCall
from agents.pending import Pending
from agents.people_events import Answered
from agents.result import Stop


class OpenStep:
    """One step, from its reply until all its calls are answered.

    `shrunk_by` is the limit because of which the answer could be no longer. `started` says of each call whose start is
    in the log whether it was declared repeatable. `stop` and `exhausted` are what answers given under an earlier
    executor mean for the run: the one at once, the other when the rest is answered. `asked` holds what people were
    asked, call by call.
    """

    __slots__ = ("answers", "asked", "calls", "exhausted", "number", "reply", "shrunk_by", "started", "stop")

    def __init__(self, number: int, reply: ModelReply, shrunk_by: Exhausted | None = None) -> None:
        self.number = number
        self.reply = reply
        self.shrunk_by = shrunk_by
        self.calls = reply.message.tool_calls
        self.answers: list[str | None] = [None] * len(self.calls)
        self.started: dict[int, bool] = {}
        self.asked: dict[int, Pending] = {}
        self.stop: Stop | None = None
        self.exhausted: Exhausted | None = None

    def unanswered(self) -> list[tuple[int, ToolCall]]:
        return [(index, call) for index, call in enumerate(self.calls) if self.answers[index] is None]

    def hear(self, answered: Answered, *, in_order: bool) -> None:
        """People answered; see `Pending.hear`."""
        for pending in self.asked.values():
            pending.hear(answered, in_order=in_order)

    def key(self, run: str, index: int) -> str:
        """Which call it is, for ever."""
        return f"{run}/{self.number}/{index}"

    def messages(self) -> list[Message]:
        """The results as the model reads them. Every call must be answered."""
        made = []
        for call, answer in zip(self.calls, self.answers, strict=True):
            assert answer is not None, f"call {call.id} has no answer"
            made.append(Message("tool", answer, tool_call_id=call.id))
        return made
