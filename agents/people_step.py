"""The calls of one reply on which people decide: asked about at once, settled in whatever order answers come.

A call that is approved is paid for, and started beside the others; its start says which approval it uses. One that is
denied, or whose approval expired, is answered with that. A question's answer is its call's value. Each step of this is
appended only if in the log's order it is still the right one. When nothing of the run is open but what people were
asked, the log says so, and the run is parked: whoever is told the next thing takes it up again.
"""

from collections.abc import Sequence

import trio

from agents.budget import Exhausted
from agents.events import Event, InputRequested, RunWaiting, ToolFinished, ToolStarted
from agents.log import JournalLost
from agents.open_step import OpenStep
from agents.pending import Pending
from agents.people_events import Asked, Reason
from agents.run_state import RunState
from agents.tool_calls import Calls
from agents.tool_plan import ONE_CALL, Granted, Plan, Refused


class PeopleStep:
    """What people were asked about one reply, until all of it is settled or the run is parked."""

    __slots__ = ("_calls", "_open", "_parked", "_plan", "_state", "_step")

    def __init__(self, state: RunState, step: OpenStep, plan: Plan, calls: Calls) -> None:
        self._state = state
        self._step = step
        self._plan = plan
        self._calls = calls
        self._open: list[Granted] = []
        self._parked = False

    @property
    def open(self) -> bool:
        """Whether people are asked something that is not settled."""
        return bool(self._open)

    async def ask(self, refusals: Sequence[Event]) -> bool:
        """Asks people, in one batch with these refusals; False, with nothing appended, where the run is ending."""
        state, step = self._state, self._step
        new = [granted for granted in self._plan.asking if granted.index not in step.asked]
        for granted in new:
            step.asked[granted.index] = _pending(granted)
            _pending(granted).being_asked = True
        requests = [_pending(granted).asked for granted in new]
        if not await state.log.append(*refusals, *requests, unless=lambda: bool(requests) and state.ending):
            for granted in new:
                del step.asked[granted.index]
            return False
        for granted in new:
            _pending(granted).being_asked = False
        if not state.ending:
            self._open = list(self._plan.asking)
            for granted in self._open:
                state.lifecycle.open(_kind(_pending(granted).asked))
        return True

    async def settle(self, nursery: trio.Nursery) -> None:
        """Until all is settled, the run is ending, or nothing of it is open but what has no answer."""
        state, calls = self._state, self._calls
        try:
            while self._open and not calls.ending:
                answered = next((granted for granted in self._open if _pending(granted).verdict is not None), None)
                if answered is not None and not state.leaving_soon:
                    await self._settle(nursery, answered)
                elif calls.running:
                    await state.stirred()
                elif answered is not None:
                    await state.leave_if_due()
                else:
                    return
        except JournalLost as lost:
            calls.lose(lost)

    async def park(self) -> bool:
        """Says in the log that people are all the run waits for; False where by then it can go on."""
        state = self._state
        await trio.lowlevel.checkpoint()  # a run whose time is over ends, and does not wait
        kinds = {_kind(_pending(granted).asked) for granted in self._open}
        reasons: tuple[Reason, ...] = tuple(sorted(kinds))
        waiting = RunWaiting(run=state.run, at=state.wall(), reasons=reasons)
        await state.log.append(waiting, unless=self._has_news)
        # what was heard since the append is behind it in the log, and ends the wait
        self._parked = not self._has_news()
        return self._parked

    def close(self) -> None:
        """People are asked nothing any more, unless the run is parked."""
        if self._parked:
            return
        for granted in self._open:
            self._state.lifecycle.close(_kind(_pending(granted).asked))
        self._open = []

    async def _settle(self, nursery: trio.Nursery, granted: Granted) -> None:
        pending, state = _pending(granted), self._state
        verdict = pending.verdict
        assert verdict is not None
        if not verdict.goes_on:
            await self._refuse(granted, Refused(granted.index, granted.call, "denied", verdict.content))
            return
        exhausted = state.scope.spend(ONE_CALL)
        if exhausted is not None:
            await self._no_room(granted, exhausted)
        elif isinstance(pending.asked, InputRequested):
            await self._answer(granted, verdict.content)
        else:
            self._settled(granted)
            self._plan.granted.append(granted)
            await self._calls.start(nursery, granted)

    async def _no_room(self, granted: Granted, exhausted: Exhausted) -> None:
        if await self._refuse(granted, Refused.by_budget(granted.index, granted.call, exhausted)):
            self._plan.exhausted = self._plan.exhausted or exhausted

    async def _refuse(self, granted: Granted, refused: Refused) -> bool:
        state, step = self._state, self._step
        if not await state.log.append(refused.event(state, step), unless=self._changed(granted)):
            return False
        step.answers[refused.index] = refused.content
        self._settled(granted)
        return True

    async def _answer(self, granted: Granted, content: str) -> None:
        state, step = self._state, self._step
        began, ended = self._answered(granted, content)
        told = False
        try:
            told = await state.log.append(began, ended, unless=self._changed(granted))
        finally:
            if not told:
                state.scope.give_back(ONE_CALL)
        if told:
            state.tool_calls += 1
            step.answers[granted.index] = content
            self._settled(granted)
        elif state.log.refused is not None and not self._calls.ending:
            await self._no_room(granted, state.log.refused)

    def _answered(self, granted: Granted, content: str) -> tuple[ToolStarted, ToolFinished]:
        state, step, call = self._state, self._step, granted.call
        at, index, key = state.wall(), granted.index, step.key(state.run, granted.index)
        return (
            ToolStarted(run=state.run, at=at, step=step.number, index=index, call=call.id, name=call.name, key=key),
            ToolFinished(
                run=state.run,
                at=at,
                step=step.number,
                index=index,
                call=call.id,
                name=call.name,
                outcome="ok",
                content=content,
            ),
        )

    def _changed(self, granted: Granted) -> "_Changed":
        return _Changed(self._calls, _pending(granted))

    def _settled(self, granted: Granted) -> None:
        self._open.remove(granted)
        self._state.lifecycle.close(_kind(_pending(granted).asked))

    def _has_news(self) -> bool:
        return self._calls.ending or any(_pending(granted).verdict is not None for granted in self._open)


class _Changed:
    """Whether an answer is another one by now, or nothing matters any more since the run is ending."""

    __slots__ = ("_calls", "_pending", "_verdict")

    def __init__(self, calls: Calls, pending: Pending) -> None:
        self._calls = calls
        self._pending = pending
        self._verdict = pending.verdict

    def __call__(self) -> bool:
        return self._calls.ending or self._pending.verdict != self._verdict


def _pending(granted: Granted) -> Pending:
    assert granted.pending is not None
    return granted.pending


def _kind(asked: Asked) -> Reason:
    return "input" if isinstance(asked, InputRequested) else "approval"
