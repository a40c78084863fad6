"""The tool calls of one reply: checked in the model's order, run together, answered in the model's order.

What is refused (see `agents.tool_plan`) is answered with the reason, so that the transcript stays whole, and only
calls that will run are paid for. Then the granted calls start in order, as many at once as the agent allows. The start
of a call is a decision: where a cancellation came before it in the log, the tool never starts.
"""

import trio

from agents.answers import EXECUTOR_LOST, NOT_MADE, NOT_STARTED
from agents.context import ToolContext
from agents.events import ToolFinished, ToolRefused, ToolStarted
from agents.execute import Outcome, ToolSlots, cut_off, execute, slots_for
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.open_step import OpenStep
from agents.result import Stop
from agents.run_state import RunState
from agents.tool_plan import ONE_CALL, Granted, Refused, first_error, plan_calls
from agents.tools import BaseTool


async def tool_step(state: RunState, step: OpenStep) -> Stop | None:
    """Answers every call of the step; a reason to stop, or None to go on with the results.

    A granted call that in the end was never started is given back to the budget.
    """
    if step.stop is not None:
        return step.stop
    plan = plan_calls(state, step)
    try:
        await state.log.append(*(_refusal(state, step, refused) for refused in plan.refused))
        for refused in plan.refused:
            step.answers[refused.index] = refused.content
        failed = first_error(state, plan)
        if failed is not None:
            return failed
        if plan.granted:
            stop = await _Calls(state, step, plan.granted).run()
            if stop is not None:
                return stop
    finally:
        for granted in plan.granted:
            if not granted.started:
                state.scope.give_back(ONE_CALL)
    return None if plan.exhausted is None else Stop.exhausted(plan.exhausted)


def _refusal(state: RunState, step: OpenStep, refused: Refused) -> ToolRefused:
    return ToolRefused(
        run=state.run,
        at=state.wall(),
        step=step.number,
        index=refused.index,
        call=refused.call.id,
        name=refused.call.name,
        outcome=refused.outcome,
        content=refused.content,
        limit=refused.limit,
    )


class _Calls:
    """The granted calls of one step, while they run."""

    __slots__ = ("_calls", "_lost", "_room", "_state", "_step", "_stop")

    def __init__(self, state: RunState, step: OpenStep, calls: list[Granted]) -> None:
        self._state = state
        self._step = step
        self._calls = calls
        self._room = trio.Semaphore(state.agent.tool_concurrency)
        self._stop: Stop | None = None
        self._lost: JournalLost | None = None

    async def run(self) -> Stop | None:
        async with trio.open_nursery() as nursery:
            for granted in self._calls:
                await self._room.acquire()
                if self._ending:
                    break
                nursery.start_soon(self._call, granted)
        if self._lost is not None:
            raise self._lost
        if self._state.leaving:
            await trio.lowlevel.checkpoint()  # what was not started is the next executor's
        return self._stop or self._state.cancel

    @property
    def _ending(self) -> bool:
        return self._stop is not None or self._lost is not None or self._state.ending

    async def _call(self, granted: Granted) -> None:
        try:
            with granted.scope:
                await self._run_one(granted)
        except JournalLost as error:
            self._lost = self._lost or error
            self._cut_off_others(granted)
        finally:
            self._room.release()

    async def _run_one(self, granted: Granted) -> None:
        state, slots = self._state, slots_for(granted.tool)
        key = self._step.key(state.run, granted.index)
        await slots.acquire()
        if self._ending:
            slots.release()
            return
        state.lifecycle.open("tool")
        try:
            try:
                begun = await state.log.append(self._start(granted, key), unless=lambda: self._ending)
            except JournalLost:
                slots.release()
                raise
            if not begun:
                slots.release()
                return
            if not granted.again:
                state.tool_calls += 1
            granted.started = True
            self._step.started[granted.index] = granted.tool.repeatable
            context = ToolContext(
                run=state.run,
                call=granted.call.id,
                key=key,
                cancel_run=lambda: self._cancelled_by_tool(granted),
                generation=state.generation,
            )
            await self._finish(granted, key, context, slots)
        finally:
            state.lifecycle.close("tool")

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
        )

    async def _finish(self, granted: Granted, key: str, context: ToolContext, slots: ToolSlots) -> None:
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
            outcome = await execute(tool, tool.bind(granted.arguments, context), context, slots)
        except BaseException:
            await self._state.hear_why()
            if not self._left(tool):
                await self._record(granted, key, cut_off(tool, "cancelled", self._why()))
            raise
        await self._record(granted, key, outcome)
        if outcome.finish != "ok" and self._state.agent.on_tool_error == "stop":
            self._stop = self._stop or Stop(StopReason.TOOL_ERROR, outcome.content)
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
        finished = ToolFinished(
            run=state.run,
            at=state.wall(),
            step=self._step.number,
            index=granted.index,
            call=granted.call.id,
            name=granted.call.name,
            outcome=outcome.finish,
            content=outcome.content,
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

    def _cut_off_others(self, granted: Granted) -> None:
        for other in self._calls:
            if other is not granted:
                other.scope.cancel()
