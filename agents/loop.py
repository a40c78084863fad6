"""The control loop: model, tool calls, results, model, until there is a reason to stop.

A run ends in one of four ways, and each is recorded where it is known:

- a step returns a reason (an answer, a limit, a failure);
- `AgentRun.cancel` or one of its own tools takes it away, or its deadline passes: its own scope is cancelled;
- whoever runs it is cancelled: the closing event is written, then the cancellation goes on its way outward, and it
  goes before the run's own deadline;
- the journal is lost: the drive ends at once, without a closing event, since nothing may follow a lost one.

Whichever it is, every tool call of the transcript has exactly one answer and nothing stays reserved in the budget.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Literal, Self

import trio

from agents.budget import Scope
from agents.errors import InvalidLimits
from agents.events import CancelRequested, Event, RunCreated, RunEnded, RunStarted, ToolRefused
from agents.lifecycle import TERMINAL_STATE, State, StopReason
from agents.log import APPEND_SECONDS, JournalLost, Log
from agents.messages import Message, Usage
from agents.model_step import judge, model_step
from agents.money import PriceList, Prices
from agents.origin import NOWHERE, Origin
from agents.port import Journal, ModelPort, Priority
from agents.result import NEXT_STEPS, RunResult, Stop
from agents.run_state import NOT_STARTED, OpenStep, RunState
from agents.snapshot import RunSnapshot
from agents.spec import AgentSpec
from agents.tool_step import tool_step

UNPRICED = PriceList()
Taken = Literal["cancelled", "interrupted"]
Taker = Literal["user", "parent"]


class AgentRun:
    """One run of one agent on one task: `create` it, then `drive` it once. `result` is set when it has ended.

    `budget` is the scope above the run's own (its job's, its tenant's), None for none. `expiry` is the time on trio's
    clock at which the run is worth nothing any more, whether it has begun or not. Raises `InvalidLimits` where money
    is limited and the agent's model has no price.
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
        number: int = 0,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._origin, self._wall = origin, wall
        self.run = run or secrets.token_hex(8)
        scope = Scope("run", agent.limits, budget)
        price = prices.price(agent.model)
        if price is None and scope.limited("micro_dollars"):
            raise InvalidLimits("micro_dollars", f"money cannot be limited, since model {agent.model!r} has no price")
        self._state = RunState(
            agent,
            self.run,
            agent.transcript(task),
            model=model,
            log=Log(journal, append_seconds),
            scope=scope,
            price=price,
            priority=priority,
            expiry=expiry,
        )
        self._scope = trio.CancelScope()
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
    ) -> Self:
        """The run of this snapshot, which another executor left open: `drive` it, without `create`.

        `number` is that of the last event in its log, `generation` that of the lease; without a `priority` it has the
        one it was created with.
        """
        raise NotImplementedError

    def receive(self, events: Sequence[Event]) -> None:
        """Events from outside that are in the run's log already: it need not wait for its next append to know them."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stops working and leaves the run open, for the next executor: `drive` raises `RunLeft`."""
        raise NotImplementedError

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
        state = self._state
        await state.log.append(
            RunCreated(
                run=self.run,
                agent=state.agent.name,
                model=state.agent.model,
                messages=tuple(state.messages),
                limits=state.agent.limits,
                session=self._origin.session,
                tenant=self._origin.tenant,
                job=self._origin.job,
                priority=None if state.priority is None else int(state.priority),
                expiry=self._origin.expiry,
                who=self._origin.who,
                at=self._wall(),
            )
        )

    def cancel(
        self, reason: Taken = "cancelled", message: str = "", source: Literal["user", "parent"] = "user"
    ) -> None:
        """Takes the run away: no new work, what is open is cut off. Cancelling a run that has ended is harmless."""
        self._state.ask_to_cancel(Stop(StopReason(reason), message or f"the run was {reason}", source=source))
        self._scope.cancel()

    async def drive(self, room: trio.CapacityLimiter | None = None) -> RunResult:
        """Runs to the end; where there is a `room` for live runs, waits (queued) for a place in it first.

        Raises `JournalLost`, or `trio.Cancelled` when the caller is cancelled.
        """
        state = self._state
        try:
            try:
                stop = await self._until_stopped(room)
            except JournalLost:
                raise
            except Exception as error:
                stop = Stop(StopReason.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            except BaseException:
                stop = Stop(StopReason.CANCELLED, "whoever ran it was cancelled", source="parent")
                state.ask_to_cancel(stop)
                await self._close(state.cancel or stop)
                raise
            return await self._close(stop)
        except JournalLost as lost:
            self._lose(lost)
            raise

    def _lose(self, lost: JournalLost) -> None:
        """The journal has no closing event; only whoever asks this object learns how the run ended."""
        stop = Stop(StopReason.INTERNAL_ERROR, lost.message)
        self._answer_the_rest()
        self._state.lifecycle.end(stop.reason)
        self.result = self._result(stop)

    async def _until_stopped(self, room: trio.CapacityLimiter | None) -> Stop:
        state = self._state
        if state.cancel is not None:
            return state.cancel
        self._scope.deadline = state.expiry
        with self._scope:
            await trio.lowlevel.checkpoint()
            if room is None:
                return await self._begin()
            await self._enter(room)
            try:
                return await self._begin()
            finally:
                room.release_on_behalf_of(self)
        ended = state.interrupted_by(trio.current_time())
        assert ended is not None, "the run's scope was cancelled by nobody"
        return ended

    async def _enter(self, room: trio.CapacityLimiter) -> None:
        try:
            room.acquire_on_behalf_of_nowait(self)
        except trio.WouldBlock:
            self._state.lifecycle.queue()
            await room.acquire_on_behalf_of(self)

    async def _begin(self) -> Stop:
        state = self._state
        state.begin()
        self._scope.deadline = state.deadline
        await state.log.append(RunStarted(run=self.run))
        return await self._steps()

    async def _steps(self) -> Stop:
        state = self._state
        while True:
            answer = await model_step(state)
            if isinstance(answer, Stop):
                return answer
            state.messages.append(answer.reply.message)
            step = state.open_step = OpenStep(answer.step, answer.reply)
            stop = state.cancel or judge(answer, state.agent.response_format) or await tool_step(state, step)
            if stop is not None:
                return stop
            self._seal(step)

    def _seal(self, step: OpenStep) -> None:
        self._state.messages += step.messages()
        self._state.open_step = None

    async def _close(self, stop: Stop) -> RunResult:
        state = self._state
        state.closing = True
        events: list[Event] = []
        if stop.source:
            reason: Taken = "interrupted" if stop.reason is StopReason.INTERRUPTED else "cancelled"
            events.append(CancelRequested(run=self.run, source=stop.source, reason=reason, call=stop.call))
        events += self._answer_the_rest()
        result = self._result(stop)
        events.append(_ended(result))
        await state.log.append(*events)
        state.lifecycle.end(stop.reason)
        self.result = result
        return result

    def _answer_the_rest(self) -> list[Event]:
        step = self._state.open_step
        if step is None:
            return []
        events: list[Event] = []
        for index, call in step.unanswered():
            step.answers[index] = NOT_STARTED
            events.append(
                ToolRefused(
                    run=self.run,
                    step=step.number,
                    index=index,
                    call=call.id,
                    name=call.name,
                    outcome="not_started",
                    content=NOT_STARTED,
                )
            )
        self._seal(step)
        return events

    def _result(self, stop: Stop) -> RunResult:
        state, limit = self._state, stop.limit
        completed = TERMINAL_STATE[stop.reason] is State.COMPLETED
        return RunResult(
            run=self.run,
            agent=state.agent.name,
            reason=stop.reason,
            state=TERMINAL_STATE[stop.reason],
            message=stop.message,
            scope=limit.scope if limit else "",
            limit=limit.limit if limit else "",
            allowed=limit.allowed if limit else None,
            observed=limit.observed if limit else None,
            answer=state.partial if completed else "",
            partial="" if completed else state.partial,
            usage=state.usage,
            micro_dollars=state.micro_dollars,
            unknown_tokens=state.scope.unknown.tokens,
            rounds=state.rounds,
            tool_calls=state.tool_calls,
            unknown_effects=tuple(state.unknown_effects),
            next=stop.next or NEXT_STEPS[stop.reason],
            messages=tuple(state.messages),
        )

    def __repr__(self) -> str:
        return f"<AgentRun {self.run} {self._state.agent.name} {self.state}>"


def _ended(result: RunResult) -> RunEnded:
    shared = set(RunEnded.__struct_fields__) & set(RunResult.__struct_fields__)
    return RunEnded(**{field: getattr(result, field) for field in shared})


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

    Every end that belongs to the run is a result. Raises `InvalidLimits` before anything is created, `JournalLost`
    where an event could not be kept, and `trio.Cancelled` after the closing event when the caller is cancelled.
    """
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
