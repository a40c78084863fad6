"""The granted calls of one reply, while they run: as many at once as the agent allows, each to its one end.

The start of a call is a decision: where a cancellation, or people's denial, came before it in the log, the tool never
starts. Nor does it where a budget above the run, which others share, turns out to have no room for it by then.
"""

from typing import Final

import trio

from agents.answers import EXECUTOR_LOST, NOT_MADE, NOT_STARTED
from agents.budget import Exhausted
from agents.context import ToolContext
from agents.delegation import Delegation
from agents.events import ToolFinished, ToolStarted
from agents.execute import Outcome, ToolSlots, cut_off, execute, slots_for
from agents.lifecycle import Opened, StopReason
from agents.log import JournalLost
from agents.open_step import OpenStep
from agents.result import Stop
from agents.run_state import RunState
from agents.spawner import Spent
from agents.tool_plan import Granted, Refused
from agents.tool_slots import Turn
from agents.tools import BaseTool

NO_ROOM: Final = "Not run: others hold what is left of a budget above this run."


class Calls:
    """`stop` is why the run is to end because of one of them, `lost` that its journal is gone, `running` how many run.

    `calls` may grow while they run. `exhausted` is the limit by which one was refused when it was to start.
    """

    __slots__ = ("_calls", "_order", "_room", "_state", "_step", "exhausted", "lost", "running", "stop")

    def __init__(self, state: RunState, step: OpenStep, calls: list[Granted]) -> None:
        self._state = state
        self._step = step
        self._calls = calls
        self._room = trio.Semaphore(state.agent.tool_concurrency)
        self._order = trio.Semaphore(1)
        self.exhausted: Exhausted | None = None
        self.stop: Stop | None = None
        self.lost: JournalLost | None = None
        self.running = 0

    @property
    def ending(self) -> bool:
        """Whether no call is started any more."""
        return self.stop is not None or self.lost is not None or self._state.ending

    async def start(self, nursery: trio.Nursery, granted: Granted) -> None:
        """Starts it when there is room, unless by then nothing is to be started any more."""
        await self._room.acquire()
        if self.ending:
            self._room.release()
            return
        self.running += 1
        nursery.start_soon(self._call, granted)

    def lose(self, lost: JournalLost, by: Granted | None = None) -> None:
        """The journal is gone, so all calls are cut off; but not the one that found out."""
        self.lost = self.lost or lost
        self._cut_off_others(by)

    async def _call(self, granted: Granted) -> None:
        try:
            with granted.scope:
                await self._run_one(granted)
        except JournalLost as error:
            self.lose(error, granted)
        finally:
            self.running -= 1
            self._room.release()
            self._state.stir()

    async def _run_one(self, granted: Granted) -> None:
        state, slots = self._state, slots_for(granted.tool)
        key = self._step.key(state.run, granted.index)
        turn = Turn(self._order)
        await slots.acquire()
        try:
            await turn.take()
        except trio.Cancelled:
            slots.release()
            raise
        if self.ending:
            slots.release()
            turn.over()
            return
        thing: Opened = "tool"
        if granted.tool.kind == "agent":
            thing, granted.delegation = "children", Delegation(state, self._step, granted.index, granted.tool.grace)
        state.lifecycle.open(thing)
        try:
            if not await self._begin(granted, key, slots):
                return
            context = ToolContext(
                run=state.run,
                call=granted.call.id,
                key=key,
                cancel_run=lambda: self._cancelled_by_tool(granted),
                generation=state.generation,
                delegation=granted.delegation,
            )
            await self._finish(granted, key, context, slots, turn)
        finally:
            turn.over()
            state.lifecycle.close(thing)

    async def _begin(self, granted: Granted, key: str, slots: ToolSlots) -> bool:
        state = self._state
        try:
            begun = await state.log.append(self._start(granted, key), unless=lambda: self._must_not_start(granted))
            if not begun and not self.ending:
                await self.refuse(self._too_late(granted))
        except JournalLost:
            slots.release()
            raise
        if not begun:
            slots.release()
            return False
        if not granted.again:
            state.tool_calls += 1
        granted.started = True
        self._step.started[granted.index] = granted.tool.repeatable
        return True

    def _must_not_start(self, granted: Granted) -> bool:
        verdict = None if granted.pending is None else granted.pending.verdict
        return self.ending or (verdict is not None and not verdict.goes_on)

    def _too_late(self, granted: Granted) -> Refused:
        """Why a call that was granted may not start after all."""
        index, call = granted.index, granted.call
        verdict = None if granted.pending is None else granted.pending.verdict
        if verdict is not None and not verdict.goes_on:  # the log had another answer of people first
            return Refused(index, call, "denied", verdict.content)
        limit = self._state.log.refused
        self.exhausted = self.exhausted or limit
        if limit is None:
            return Refused(index, call, "refused_budget", NO_ROOM)
        return Refused.by_budget(index, call, limit)

    async def refuse(self, refused: Refused) -> None:
        """Answers a call that does not run after all."""
        await self._state.log.append(refused.event(self._state, self._step))
        self._step.answers[refused.index] = refused.content

    def _start(self, granted: Granted, key: str) -> ToolStarted:
        return ToolStarted(
            run=self._state.run,
            at=self._state.wall(),
            step=self._step.number,
            index=granted.index,
            call=granted.call.id,
            name=granted.call.name,
            key=key,
            repeatable=granted.tool.repeatable,
            approval="" if granted.pending is None else granted.pending.asked.key,
        )

    async def _finish(self, granted: Granted, key: str, context: ToolContext, slots: ToolSlots, turn: Turn) -> None:
        tool = granted.tool
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            slots.release()
            await self._state.hear_why()
            if not self._left(tool):
                why = NOT_MADE if self._state.leaving else NOT_STARTED
                await self._record(granted, key, Outcome("cancelled", why))
            raise
        try:
            call = tool.bind(granted.arguments, context)
            watch = self._state.abandoned.watch(self._start(granted, key))
            outcome = await execute(tool, call, context, slots, watch=watch, begun=turn.over)
        except BaseException:
            await self._state.hear_why()
            if not self._left(tool):
                await self._record(granted, key, cut_off(tool, "cancelled", self._why()))
            raise
        await self._record(granted, key, outcome)
        if outcome.finish != "ok" and self._state.agent.on_tool_error == "stop":
            self.stop = self.stop or Stop(StopReason.TOOL_ERROR, outcome.content)
            self._cut_off_others(granted)

    def _left(self, tool: BaseTool) -> bool:
        """Whether the call stays open, since the next executor may simply make it again."""
        return self._state.leaving and tool.repeatable

    def _why(self) -> str:
        return EXECUTOR_LOST if self._state.leaving else "its run was ending"

    async def _record(self, granted: Granted, key: str, outcome: Outcome) -> None:
        state = self._state
        self._step.answers[granted.index] = outcome.content
        if outcome.finish == "unknown_effect":
            state.unknown_effects.append(key)
        spent = Spent() if granted.delegation is None else granted.delegation.spent
        state.below += spent.used
        finished = ToolFinished(
            run=state.run,
            at=state.wall(),
            step=self._step.number,
            index=granted.index,
            call=granted.call.id,
            name=granted.call.name,
            outcome=outcome.finish,
            content=outcome.content,
            used=spent.used,
            unknown=spent.unknown,
        )
        # a tool's word that the run is over is as durable as its value
        took_run = state.cancel is not None and state.cancel.call == granted.call.id
        await state.log.append(finished, *(state.untold_cancel() if took_run else ()))

    def _cancelled_by_tool(self, granted: Granted) -> None:
        if self._step.answers[granted.index] is not None:
            return  # an abandoned call has no say any more
        message = f"the tool {granted.call.name} cancelled the run"
        self._state.ask_to_cancel(Stop(StopReason.CANCELLED, message, source="tool", call=granted.call.id))
        self._cut_off_others(granted)

    def _cut_off_others(self, granted: Granted | None) -> None:
        for other in self._calls:
            if other is not granted:
                other.scope.cancel()
