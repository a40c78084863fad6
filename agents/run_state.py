"""What one run knows while it is driven; shared by the loop and its steps."""

from typing import Final

import trio

from agents.budget import Scope
from agents.lifecycle import Lifecycle, State, StopReason
from agents.log import Log
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.money import Price
from agents.port import ModelPort, Priority
from agents.result import Stop
from agents.spec import AgentSpec

NOT_STARTED: Final = "The run ended before this call was started."


class OpenStep:
    """A reply whose tool calls are being answered; every call gets exactly one answer, kept in the model's order."""

    __slots__ = ("answers", "calls", "number")

    def __init__(self, number: int, reply: ModelReply) -> None:
        self.number = number
        self.calls = reply.message.tool_calls
        self.answers: list[str | None] = [None] * len(self.calls)

    def unanswered(self) -> list[tuple[int, ToolCall]]:
        return [(index, call) for index, call in enumerate(self.calls) if self.answers[index] is None]

    def messages(self) -> list[Message]:
        """The results as the model reads them. Every call must be answered."""
        made = []
        for call, answer in zip(self.calls, self.answers, strict=True):
            assert answer is not None, f"call {call.id} has no answer"
            made.append(Message("tool", answer, tool_call_id=call.id))
        return made


class RunState:
    """The mutable side of a run. Only its own tasks touch it."""

    __slots__ = (
        "agent",
        "cancel",
        "closing",
        "deadline",
        "expiry",
        "lifecycle",
        "log",
        "messages",
        "micro_dollars",
        "model",
        "open_step",
        "partial",
        "price",
        "priority",
        "rounds",
        "run",
        "scope",
        "tool_calls",
        "tools",
        "unknown_effects",
        "usage",
    )

    def __init__(
        self,
        agent: AgentSpec,
        run: str,
        messages: tuple[Message, ...],
        *,
        model: ModelPort,
        log: Log,
        scope: Scope,
        price: Price | None,
        priority: Priority | None,
        expiry: float,
    ) -> None:
        self.agent = agent
        self.run = run
        self.model = model
        self.log = log
        self.scope = scope
        self.price = price
        self.priority = priority
        self.expiry = expiry
        self.deadline = expiry
        self.lifecycle = Lifecycle()
        self.tools = {tool.name: tool for tool in agent.tools}
        self.messages = list(messages)
        self.open_step: OpenStep | None = None
        self.cancel: Stop | None = None
        self.closing = False
        self.partial = ""
        self.usage = Usage()
        self.micro_dollars: int | None = None if price is None else 0
        self.rounds = 0
        self.tool_calls = 0
        self.unknown_effects: list[str] = []

    @property
    def step(self) -> int:
        """The number of the next model call to be answered."""
        return self.rounds + 1

    def begin(self) -> None:
        """The run is taken up: its clocks start."""
        self.lifecycle.begin()
        self.scope.start(trio.current_time())
        self.deadline = min(self.scope.deadline(), self.expiry)

    def ask_to_cancel(self, stop: Stop) -> None:
        """No new work from here on; the first to ask names the reason."""
        if self.cancel is not None or self.closing:
            return
        self.cancel = stop
        if self.lifecycle.state not in (State.CREATED, State.QUEUED):
            self.lifecycle.cancel()

    def interrupted_by(self, now: float) -> Stop | None:
        """Why the run may not go on, if so: somebody took it away, or a clock ran out."""
        if self.cancel is not None:
            return self.cancel
        if now < self.deadline:
            return None
        timed_out = self.scope.timed_out(now)
        if timed_out is None or self.expiry < self.scope.deadline():
            return Stop(StopReason.EXPIRED, "the run's expiry passed")
        return Stop.exhausted(timed_out)
