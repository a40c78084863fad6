"""What one run knows while it is driven; shared by the loop and its steps."""

from collections.abc import Callable, Sequence
from typing import Literal

import trio

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.events import ApprovalDecided, BudgetGranted, CancelRequested, Event, InputGiven, MessageAdded
from agents.late import Abandoned
from agents.lifecycle import Lifecycle, State, StopReason
from agents.log import Log
from agents.messages import Message, Usage
from agents.money import Price
from agents.open_step import OpenStep
from agents.port import ModelPort, Priority
from agents.result import Stop
from agents.snapshot import RunSnapshot
from agents.spawner import Spawner
from agents.spec import AgentSpec
from agents.step_messages import raised

Taken = Literal["cancelled", "interrupted"]


class RunState:
    """The mutable side of a run. Only its own tasks touch it.

    `work` is cancelled when nothing may go on; `inbox` holds what no request of the model has had yet. `news` counts
    what came from outside and may change a decision; `opening` and `context` are those of a `RunSnapshot`. With
    fewer than `whole_until` messages no summary is tried for again. `left_open` is where an earlier executor left the
    run, until this one has said in the log what became of that. `spawner` starts runs below it, `children` are those
    that it started, which have used `below`, and `depth` runs are above it. The last `calls_lost` model calls
    were lost, one after the other.
    """

    __slots__ = (
        "_stir",
        "abandoned",
        "agent",
        "attempts",
        "below",
        "calls_lost",
        "cancel",
        "cancel_logged",
        "children",
        "closing",
        "context",
        "deadline",
        "depth",
        "expiry",
        "generation",
        "inbox",
        "leaving",
        "leaving_soon",
        "left_open",
        "lifecycle",
        "log",
        "messages",
        "micro_dollars",
        "model",
        "news",
        "open_step",
        "opening",
        "partial",
        "price",
        "priority",
        "rounds",
        "run",
        "scope",
        "spawner",
        "tool_calls",
        "tools",
        "unknown_effects",
        "usage",
        "wall",
        "whole_until",
        "work",
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
        wall: Callable[[], float],
        generation: int = 0,
    ) -> None:
        self.agent = agent
        self.run = run
        self.model = model
        self.log = log
        self.abandoned = Abandoned(log, wall)
        self.scope = scope
        self.price = price
        self.priority = priority
        self.expiry = expiry
        self.wall = wall
        self.generation = generation
        self.deadline = expiry
        self.lifecycle = Lifecycle()
        self.work = trio.CancelScope()
        self.tools = {tool.name: tool for tool in agent.tools}
        self.messages = list(messages)
        self.inbox: list[str] = []
        self.news = 0
        self.opening = 0
        self.context: int | None = None
        self.whole_until = 0
        self.open_step: OpenStep | None = None
        self.left_open: RunSnapshot | None = None
        self.cancel: Stop | None = None
        self.cancel_logged = False
        self.closing = False
        self.leaving = self.leaving_soon = False
        self.partial = ""
        self.usage = Usage()
        self.micro_dollars: int | None = None if price is None else 0
        self.rounds = 0
        self.attempts = self.calls_lost = 0
        self.tool_calls = 0
        self.unknown_effects: list[str] = []
        self.spawner: Spawner | None = None
        self.depth = 0
        self.children: set[str] = set()
        self.below = NOTHING
        self._stir: trio.Event | None = None
        log.receive = self.receive

    def leave(self) -> None:
        """Nobody here works at the run from now on, and it stays open."""
        self.leaving = True
        self.work.cancel()

    async def leave_if_due(self) -> None:
        """Between two calls: leaves the run where that is wanted, which raises `trio.Cancelled`."""
        if self.leaving_soon:
            self.leave()
            await trio.lowlevel.checkpoint()

    async def hear_why(self) -> None:
        """For a task of the run that was cancelled: whoever was cancelled with it can say by now that the run is left.

        All tasks under one cancelled scope are woken together, and one step later each of them has run.
        """
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()

    def stir(self) -> None:
        """Something happened that whoever waits for people may have to act on."""
        if self._stir is not None:
            self._stir.set()

    async def stirred(self) -> None:
        """Until the next `stir`."""
        self._stir = trio.Event()
        await self._stir.wait()

    @property
    def ending(self) -> bool:
        """Whether nothing new may begin."""
        return self.cancel is not None or self.leaving

    @property
    def step(self) -> int:
        """The number of the next model call to be answered."""
        return self.rounds + 1

    def begin(self) -> None:
        """The run is taken up: its clocks start, unless they ran before."""
        self.lifecycle.begin()
        now = trio.current_time()
        self.scope.start(now if self.scope.started is None else self.scope.started)
        self.set_deadline()

    def set_deadline(self) -> None:
        self.deadline = self.work.deadline = min(self.scope.deadline(), self.expiry)

    def ask_to_cancel(self, stop: Stop) -> None:
        """No new work from here on; the first to ask names the reason."""
        if self.cancel is not None or self.closing:
            return
        self.cancel = stop
        if self.lifecycle.state not in (State.CREATED, State.QUEUED):
            self.lifecycle.cancel()

    def untold_cancel(self) -> list[Event]:
        """What the log has yet to be told of who took the run away."""
        stop = self.cancel
        if stop is None or not stop.source or self.cancel_logged:
            return []
        self.cancel_logged = True
        reason: Taken = "interrupted" if stop.reason is StopReason.INTERRUPTED else "cancelled"
        return [CancelRequested(run=self.run, at=self.wall(), source=stop.source, reason=reason, call=stop.call)]

    def _stop_for(self, event: CancelRequested) -> Stop:
        calls = () if self.open_step is None or event.source != "tool" else self.open_step.calls
        tool = next((call.name for call in calls if call.id == event.call), None)
        message = f"the run was {event.reason}" if tool is None else f"the tool {tool} cancelled the run"
        return Stop(StopReason(event.reason), message, call=event.call)

    def receive(self, events: Sequence[Event]) -> None:
        """What others appended, in the log's order; each event once."""
        self.inbox += [e.content for e in events if isinstance(e, MessageAdded) and e.run == self.run]
        self.news += len(events)
        for event in events:
            if isinstance(event, ApprovalDecided | InputGiven) and event.run == self.run and self.open_step is not None:
                self.open_step.hear(event, in_order=True)
        self.hear(events)

    def hear(self, events: Sequence[Event]) -> None:
        """What others appended and what need not wait for its turn, since to hear of it twice changes nothing."""
        for event in events:
            if event.run != self.run:
                continue
            if isinstance(event, CancelRequested):
                self.cancel_logged = True
                self.ask_to_cancel(self._stop_for(event))
                self.work.cancel()
            elif isinstance(event, BudgetGranted):
                self._grant(event.limits)
            elif isinstance(event, ApprovalDecided | InputGiven) and self.open_step is not None:
                self.open_step.hear(event, in_order=False)
        self.stir()

    def _grant(self, limits: Limits) -> None:
        self.scope.limits = raised(self.scope.limits, limits)
        if self.lifecycle.state not in (State.CREATED, State.QUEUED):
            self.set_deadline()
        self.scope.wake()

    def read_inbox(self) -> list[Message]:
        """What the next request has that no earlier one had."""
        return [Message("user", content) for content in self.inbox]

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
