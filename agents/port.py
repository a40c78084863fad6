"""What an agent needs from outside, as narrow ports: a model to call and a journal to write.

A `Call` is one model request on its way. Its caller submits it to an owner's inbox and waits for the outcome:
a parked task and a slot. Only a caller that wants deltas adds a bounded channel for them, and the outcome never
travels in that channel, or a slow reader would block the owner.
"""

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import trio
from msgspec import Struct

from agents.budget import Exhausted
from agents.errors import ModelError
from agents.messages import Delta, ModelReply, ModelRequest
from agents.money import Price


class Priority(IntEnum):
    """How urgent a call is; a lower value goes first."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2


class Flow(Struct, frozen=True):
    """Whose call it is. Fairness is counted along this path."""

    tenant: str = "default"
    job: str = ""
    run: str = ""


class Held(Struct, frozen=True):
    """What a call holds of its budgets until it has ended, and what its tokens cost there."""

    tokens: int
    micro_dollars: int = 0
    price: Price | None = None


Tap = Callable[[Sequence[Delta]], None]
"""Hears an answer as it comes, and holds nothing up: fast, synchronous, and it never raises."""


class Call:
    """One model request on its way from a caller to a backend and back.

    `deadline` is on trio's clock. `restartable` says that the reader of the deltas understands a reset delta, so that
    a failed attempt may be tried again although part of it was delivered. `agent` marks calls of the daemon's own
    agents, which are exempt from the queue's caps (live runs are bounded and have one call at a time). `elsewhere` says
    that the caller has another backend to go to: the owner gives the call back as soon as it can serve nobody. `key` is
    the call's own in books of calls (see `Receipt`), `held` what it holds of its budgets, where somebody says so.
    A `tap` hears the answer as well, whether anybody reads deltas or not, and a reset before a further attempt.
    `ticket` belongs to the owner, and so does `sent`: how many attempts went out, less those for which certainly no
    work was done.
    """

    __slots__ = (
        "_waiter",
        "abandoned",
        "agent",
        "deadline",
        "deltas",
        "elsewhere",
        "flow",
        "held",
        "key",
        "outcome",
        "priority",
        "request",
        "restartable",
        "sent",
        "tap",
        "ticket",
    )

    def __init__(
        self,
        request: ModelRequest,
        flow: Flow,
        priority: Priority = Priority.STANDARD,
        *,
        deadline: float = math.inf,
        deltas: "trio.MemorySendChannel[tuple[Delta, ...]] | None" = None,
        restartable: bool = True,
        agent: bool = True,
        elsewhere: bool = False,
        key: str = "",
        held: Held | None = None,
    ) -> None:
        self.request = request
        self.flow = flow
        self.key = key
        self.held = held
        self.priority = priority
        self.deadline = deadline
        self.deltas = deltas
        self.restartable = restartable
        self.agent = agent
        self.elsewhere = elsewhere
        self.abandoned = False
        self.outcome: ModelReply | ModelError | None = None
        self.sent = 0
        self.tap: Tap | None = None
        self.ticket: Any = None
        self._waiter: trio.lowlevel.Task | None = None

    def resolve(self, outcome: ModelReply | ModelError) -> bool:
        """Sets the outcome once and wakes the caller; False if it was set before."""
        if self.outcome is not None:
            return False
        self.outcome = outcome
        if self.deltas is not None:
            self.deltas.close()
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            trio.lowlevel.reschedule(waiter)
        return True

    async def wait(self) -> None:
        """Waits for the outcome; for the one task that submitted the call. Always a checkpoint.

        A parked task costs a third of an event's memory and time, and every call needs one.
        """
        if self.outcome is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._waiter is not None:
            raise trio.BusyResourceError("another task waits for this call already")
        self._waiter = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)

    def _stop_waiting(self, _: Any) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def result(self) -> ModelReply:
        """The reply; raises the call's error."""
        outcome = self.outcome
        if isinstance(outcome, ModelReply):
            return outcome
        assert outcome is not None, "the call is not finished"
        raise outcome

    def __repr__(self) -> str:
        flow = self.flow
        state = "open" if self.outcome is None else type(self.outcome).__name__
        return f"<Call {flow.tenant}/{flow.job}/{flow.run} {self.priority.name.lower()} {state}>"


class Inbox(Protocol):
    """The owner's side of the channel, as a caller sees it."""

    def submit_nowait(self, call: Call) -> None:
        """Hands the call over; raises `trio.WouldBlock` when the inbox is full, `OwnerClosed` when it is shut."""
        ...

    async def submit(self, call: Call) -> None:
        """Like `submit_nowait`, but waits for room."""
        ...

    def leave(self, call: Call) -> None:
        """Tells the owner that nobody waits for this call any more. Never blocks, never fails."""
        ...


class Receipt:
    """What a caller can know of its call even when it was cancelled. It gives it to `ModelPort.call`, empty.

    A port that goes from one backend to the next makes several calls of one; then it tells of all. `key` says which
    call it is, for ever, in every book that is kept of calls; empty where nobody keeps one. `held` is what the call
    holds of its budgets. A `tap` hears the answers of all of them (see `Call`).
    """

    __slots__ = ("_calls", "_sent_before", "call", "held", "key", "tap")

    def __init__(self, key: str = "", held: Held | None = None) -> None:
        self.key = key
        self.held = held
        self.call: Call | None = None
        self.tap: Tap | None = None
        self._calls = 0
        self._sent_before = False

    def hold(self, call: Call) -> None:
        """The next call made for the same request; the one before it, if there was one, has ended."""
        self._sent_before = self.sent or False
        self._calls += 1
        self.call = call
        call.tap = self.tap

    @property
    def next_key(self) -> str:
        """The key of the next call made for the request: `key`, and with a number for every further one."""
        return f"{self.key}+{self._calls}" if self.key and self._calls else self.key

    @property
    def sent(self) -> bool | None:
        """Whether a provider may have worked on the call; None where the port does not tell.

        After the caller has left it never turns from False to True: an owner sends no call that nobody waits for.
        """
        return None if self.call is None else self._sent_before or self.call.sent > 0


class ModelPort(Protocol):
    """How an agent reaches a model."""

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        """One answer. Raises `ModelError`; cancelling it takes the call out of the queue or off the wire.

        A port that knows whether the call was sent fills in the `receipt`.
        """
        ...


class Models(Protocol):
    """Where runs get their model from."""

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        """A model for one run."""
        ...

    def ended(self, flow: Flow) -> None:
        """That run makes no more calls."""
        ...


class Newcomers(Exception):
    """Events from outside were sequenced first: nothing was appended, and the executor decides again knowing them."""

    def __init__(self, events: Sequence[Any]) -> None:
        super().__init__(f"{len(events)} events from outside came first")
        self.events = tuple(events)


class NoRoom(Exception):
    """A budget above the run has no room for what the events announce: nothing was appended.

    `exhausted` is the limit that is spent; None where others only hold what is left of one at the moment.
    """

    def __init__(self, exhausted: Exhausted | None) -> None:
        super().__init__("spent" if exhausted is not None else "held by others at the moment")
        self.exhausted = exhausted


class Journal(Protocol):
    """Where a run's events go. What `append` has returned for is as durable as the journal can make it."""

    async def append(self, events: Sequence[Any]) -> None:
        """Appends all events in order or none.

        Raises `Newcomers` where others have appended meanwhile; the next try goes behind what they appended. A journal
        whose owner reserves in the budgets above the run raises `NoRoom` where they have none. Any other exception
        ends the run's drive: nothing may follow a lost event.
        """
        ...


@runtime_checkable
class TakesLate(Protocol):
    """A journal that also keeps evidence."""

    async def late(self, event: Any) -> None:
        """Appends what came of an abandoned call, behind whatever is there: the run may have ended, or be another
        executor's. It is kept once, however often it is told.
        """
        ...
