"""The control loop: model, tool calls, results, model, until there is a reason to stop.

A run ends in one of four ways, and each is recorded where it is known:

- a step returns a reason (an answer, a limit, a failure);
- `AgentRun.cancel`, a `cancel_requested` in its log or one of its own tools takes it away, or its deadline passes: its
  own scope is cancelled;
- whoever runs it is cancelled: the closing event is written, then the cancellation goes on its way outward, and it
  goes before the run's own deadline;
- the journal is lost: the drive ends at once, without a closing event, since nothing may follow a lost one.

Whichever it is, every tool call of the transcript has exactly one answer and nothing stays reserved in the budget.

A run can also be left (`AgentRun.leave`): then it has not ended, and `AgentRun.take_up` goes on with it elsewhere. So
does whoever hears that people answered a run that was parked, since nothing but they could go on with it.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Literal, Self

import trio

from agents.budget import Scope
from agents.closing import close, close_unlogged
from agents.drive import until_stopped
from agents.events import Event, RunCreated
from agents.fold import transcript
from agents.lifecycle import State, StopReason
from agents.log import APPEND_SECONDS, JournalLost, Log
from agents.messages import Message, Usage
from agents.model_need import price_within
from agents.money import PriceList, Prices
from agents.origin import NOWHERE, Origin, RunLeft
from agents.port import Journal, ModelPort, Priority
from agents.requests import refuse_without_people
from agents.result import RunResult, Stop
from agents.run_state import RunState
from agents.run_state import Taken as Taken
from agents.snapshot import RunSnapshot
from agents.spawner import Spawner, scope_name
from agents.spec import AgentSpec
from agents.take_up import expiry_of, opening_of, restore, what_it_adds

UNPRICED = PriceList()
Taker = Literal["user", "parent"]


class AgentRun:
    """One run of one agent on one task: `create` it, then `drive` it once. `result` is set when it has ended.

    `budget` is the scope above the run's own (its job's, its tenant's), None for none. `expiry` is the time on trio's
    clock at which the run is worth nothing any more, whether it has begun or not. `history` is the last run of the
    session that this one goes on with; an empty task then goes on where that stopped. `generation` is that of the
    session's lease, `number` that of the last event in its log; `wall` tells seconds since the epoch. `spawner` starts
    the runs below it, for tools that are agents; None refuses them. Raises `InvalidLimits` where money is limited and
    the agent's model has no price, `CannotContinue` where the session cannot go on like this.
    """

    def __init__(
        self,
        agent: AgentSpec,
        task: str | tuple[Message, ...],
        *,
        model: ModelPort,
        journal: Journal,
        budget: Scope | None = None,
        prices: Prices = UNPRICED,
        run: str = "",
        priority: Priority | None = None,
        expiry: float = math.inf,
        append_seconds: float = APPEND_SECONDS,
        origin: Origin = NOWHERE,
        history: RunSnapshot | None = None,
        generation: int = 0,
        number: int = 0,
        wall: Callable[[], float] = lambda: 0.0,
        spawner: Spawner | None = None,
    ) -> None:
        before = () if history is None else transcript(history)
        self._adds = agent.transcript(task) if history is None else what_it_adds(agent, task, history)
        self._origin = origin
        scope = Scope(scope_name(origin.depth), agent.limits, budget)
        self._state = RunState(
            agent,
            run or secrets.token_hex(8),
            before + self._adds,
            model=model,
            log=Log(journal, append_seconds, number),
            scope=scope,
            price=price_within(scope, agent.model, prices),
            priority=priority,
            expiry=expiry,
            wall=wall,
            generation=generation,
        )
        self._state.spawner, self._state.depth = spawner, origin.depth
        if history is None:
            self._state.opening = opening_of(self._adds, task)
        else:
            self._state.opening, self._state.context = history.opening, history.context
        self.result: RunResult | None = None

    @classmethod
    def take_up(
        cls,
        agent: AgentSpec,
        snapshot: RunSnapshot,
        *,
        model: ModelPort,
        journal: Journal,
        budget: Scope | None = None,
        prices: Prices = UNPRICED,
        generation: int = 0,
        number: int = 0,
        wall: Callable[[], float] = lambda: 0.0,
        priority: Priority | None = None,
        append_seconds: float = APPEND_SECONDS,
        spawner: Spawner | None = None,
    ) -> Self:
        """The run of this snapshot, which another executor left open: `drive` it, without `create`.

        `number` is that of the last event in its log, `generation` that of the lease; without a `priority` it has the
        one it was created with.
        """
        created, now = snapshot.created, wall()
        scope = Scope(scope_name(created.depth), snapshot.limits, budget)
        if priority is None and created.priority is not None:
            priority = Priority(created.priority)
        state = RunState(
            agent,
            created.run,
            snapshot.messages,
            model=model,
            log=Log(journal, append_seconds, number),
            scope=scope,
            price=price_within(scope, agent.model, prices),
            priority=priority,
            expiry=expiry_of(snapshot, now),
            wall=wall,
            generation=generation,
        )
        restore(state, snapshot, now)
        state.spawner = spawner
        run = cls.__new__(cls)
        run._state, run._adds, run._origin, run.result = state, (), NOWHERE, None
        return run

    @property
    def run(self) -> str:
        """The run's id."""
        return self._state.run

    @property
    def state(self) -> State:
        return self._state.lifecycle.state

    @property
    def scope(self) -> Scope:
        """The run's own budget."""
        return self._state.scope

    @property
    def usage(self) -> Usage:
        """What the provider has reported so far."""
        return self._state.usage

    @property
    def progress(self) -> RunState:
        """All that the run knows so far: to read, never to change."""
        return self._state

    async def create(self) -> None:
        """Makes the run durable. Nothing has happened before this, and nothing does if it fails."""
        state, origin = self._state, self._origin
        await state.log.append(
            RunCreated(
                run=state.run,
                at=state.wall(),
                agent=state.agent.name,
                model=state.agent.model,
                messages=self._adds,
                opening=state.opening,
                limits=state.agent.limits,
                session=origin.session,
                tenant=origin.tenant,
                job=origin.job,
                priority=None if state.priority is None else int(state.priority),
                expiry=origin.expiry,
                who=origin.who,
                parent=origin.parent,
                parent_key=origin.parent_key,
                depth=origin.depth,
                trace=origin.trace,
            )
        )

    def cancel(self, reason: Taken = "cancelled", message: str = "", source: Taker = "user") -> None:
        """Takes the run away: no new work, what is open is cut off. Cancelling a run that has ended is harmless."""
        self._state.ask_to_cancel(Stop(StopReason(reason), message or f"the run was {reason}", source=source))
        self._state.work.cancel()

    def receive(self, events: Sequence[Event]) -> None:
        """What others have appended to the run's log: it need not wait for its next append to act on it.

        A hint only: the journal still raises `Newcomers` for each of these events, once. A cancellation cuts off what
        is open, a grant wakes whoever waits for it; a message is read when its turn comes.
        """
        self._state.hear(events)

    def leave(self) -> None:
        """Stops working and leaves the run open, for the next executor: `drive` raises `RunLeft`.

        A run that is ending already ends.
        """
        self._state.leave()

    def leave_soon(self) -> None:
        """Lets the calls that are open end, begins no new one, and then leaves the run as `leave` does."""
        state = self._state
        state.leaving_soon = True
        if state.lifecycle.state in (State.CREATED, State.QUEUED):
            state.leave()

    async def drive(self, room: trio.CapacityLimiter | None = None) -> RunResult:
        """Runs to the end; where there is a `room` for live runs, waits (queued) for a place in it first.

        Raises `JournalLost`, `RunLeft` after `leave`, `RunParked` where it waits for people and for nothing else, or
        `trio.Cancelled` when the caller is cancelled.
        """
        state = self._state
        try:
            try:
                stop = await until_stopped(state, room)
            except (JournalLost, RunLeft):
                raise
            except Exception as error:
                stop = Stop(StopReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            except BaseException:
                await state.hear_why()
                if state.leaving:
                    raise
                stop = Stop(StopReason.CANCELLED, "whoever ran it was cancelled", source="parent")
                state.ask_to_cancel(stop)
                self.result = await close(state, state.cancel or stop)
                raise
            self.result = await close(state, stop)
        except JournalLost as lost:
            if state.leaving:
                raise RunLeft(f"run {state.run} was left open, and its log took no more: {lost.message}") from lost
            self.result = close_unlogged(state, lost)
            raise
        return self.result

    def __repr__(self) -> str:
        return f"<AgentRun {self.run} {self._state.agent.name} {self.state}>"


async def run_agent(
    agent: AgentSpec,
    task: str | tuple[Message, ...],
    *,
    model: ModelPort,
    journal: Journal,
    budget: Scope | None = None,
    prices: Prices = UNPRICED,
    run: str = "",
    priority: Priority | None = None,
    expiry: float = math.inf,
) -> RunResult:
    """Runs one agent on one task, from start to its one stop reason.

    Every end that belongs to the run is a result. Raises `InvalidLimits`, and `NobodyToAsk` where the agent has a tool
    on which people decide, before anything is created; `JournalLost` where an event could not be kept, and
    `trio.Cancelled` after the closing event when the caller is cancelled.
    """
    refuse_without_people(agent)
    agent_run = AgentRun(
        agent,
        task,
        model=model,
        journal=journal,
        budget=budget,
        prices=prices,
        run=run,
        priority=priority,
        expiry=expiry,
    )
    await agent_run.create()
    return await agent_run.drive()
