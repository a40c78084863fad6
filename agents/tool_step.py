"""The tool calls of one reply: checked in the model's order, run together, answered in the model's order.

Each call is checked against the budget first, before the tool is even known to exist; then against the tools and
their parameters. What is refused is answered with the reason, so that the transcript stays whole, and only calls that
will run are paid for. Then the granted calls start in order, as many at once as the agent allows.
"""

import trio

from agents.budget import Amounts, Exhausted
from agents.context import ToolContext
from agents.events import Refusal, ToolFinished, ToolRefused, ToolStarted
from agents.execute import Outcome, ToolSlots, cut_off, execute, slots_for
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.messages import ToolCall
from agents.result import Stop
from agents.run_state import NOT_STARTED, OpenStep, RunState
from agents.tools import BadArguments, Tool

ONE_CALL = Amounts(tool_calls=1)


class Granted:
    """A call that may run: its tool exists, its arguments fit, and it is paid for."""

    __slots__ = ("arguments", "call", "index", "scope", "started", "tool")

    def __init__(self, index: int, call: ToolCall, tool: Tool, arguments: dict[str, object]) -> None:
        self.index = index
        self.call = call
        self.tool = tool
        self.arguments = arguments
        self.started = False
        self.scope = trio.CancelScope()


class Plan:
    """What becomes of each call of a reply."""

    __slots__ = ("exhausted", "granted", "refused")

    def __init__(self) -> None:
        self.granted: list[Granted] = []
        self.refused: list[tuple[int, ToolCall, Refusal, str]] = []
        self.exhausted: Exhausted | None = None


def plan_calls(state: RunState, step: OpenStep) -> Plan:
    """Decides on every call, in the model's order, and pays for each that it grants."""
    plan = Plan()
    for index, call in enumerate(step.calls):
        exhausted = state.scope.spend(ONE_CALL)
        if exhausted is not None:
            plan.exhausted = plan.exhausted or exhausted
            plan.refused.append((index, call, "refused_budget", f"Not run: {exhausted.message}."))
            continue
        decision = _grant(state, index, call)
        if isinstance(decision, Granted):
            plan.granted.append(decision)
        else:
            state.scope.give_back(ONE_CALL)
            plan.refused.append(decision)
    return plan


def _grant(state: RunState, index: int, call: ToolCall) -> Granted | tuple[int, ToolCall, Refusal, str]:
    tool = state.tools.get(call.name)
    if tool is None:
        known = ", ".join(state.tools) or "none"
        return index, call, "unknown_tool", f"There is no tool {call.name!r}. Known tools: {known}."
    try:
        return Granted(index, call, tool, tool.decode(call.arguments))
    except BadArguments as error:
        return index, call, "bad_arguments", error.message


async def tool_step(state: RunState, step: OpenStep) -> Stop | None:
    """Answers every call of the step; a reason to stop, or None to go on with the results.

    A granted call that in the end was never started is given back to the budget.
    """
    plan = plan_calls(state, step)
    try:
        await state.log.append(*(_refusal(state, step, refused) for refused in plan.refused))
        for index, _, _, content in plan.refused:
            step.answers[index] = content
        failed = _first_error(state, plan)
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


def _refusal(state: RunState, step: OpenStep, refused: tuple[int, ToolCall, Refusal, str]) -> ToolRefused:
    index, call, outcome, content = refused
    return ToolRefused(
        run=state.run, step=step.number, index=index, call=call.id, name=call.name, outcome=outcome, content=content
    )


def _first_error(state: RunState, plan: Plan) -> Stop | None:
    if state.agent.on_tool_error != "stop":
        return None
    wrong = next((why for _, _, outcome, why in plan.refused if outcome != "refused_budget"), None)
    return None if wrong is None else Stop(StopReason.TOOL_ERROR, wrong)


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
        return self._stop or self._state.cancel

    @property
    def _ending(self) -> bool:
        return self._stop is not None or self._lost is not None or self._state.cancel is not None

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
        state, tool, call = self._state, granted.tool, granted.call
        key = f"{state.run}/{self._step.number}/{granted.index}"
        slots = slots_for(tool)
        await slots.acquire()
        if self._ending:
            slots.release()
            return
        state.lifecycle.open("tool")
        try:
            try:
                await state.log.append(
                    ToolStarted(
                        run=state.run,
                        step=self._step.number,
                        index=granted.index,
                        call=call.id,
                        name=call.name,
                        key=key,
                    )
                )
            except JournalLost:
                slots.release()
                raise
            granted.started = True
            state.tool_calls += 1
            context = ToolContext(
                run=state.run, call=call.id, key=key, cancel_run=lambda: self._cancelled_by_tool(granted)
            )
            await self._finish(granted, key, context, slots)
        finally:
            state.lifecycle.close("tool")

    async def _finish(self, granted: Granted, key: str, context: ToolContext, slots: ToolSlots) -> None:
        tool = granted.tool
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            slots.release()
            await self._record(granted, key, Outcome("cancelled", NOT_STARTED))
            raise
        try:
            outcome = await execute(tool, tool.bind(granted.arguments, context), context, slots)
        except BaseException:
            await self._record(granted, key, cut_off(tool, "cancelled", "its run was ending"))
            raise
        await self._record(granted, key, outcome)
        if outcome.finish != "ok" and self._state.agent.on_tool_error == "stop":
            self._stop = self._stop or Stop(StopReason.TOOL_ERROR, outcome.content)
            self._cut_off_others(granted)

    async def _record(self, granted: Granted, key: str, outcome: Outcome) -> None:
        state = self._state
        self._step.answers[granted.index] = outcome.content
        if outcome.finish == "unknown_effect":
            state.unknown_effects.append(key)
        await state.log.append(
            ToolFinished(
                run=state.run,
                step=self._step.number,
                index=granted.index,
                call=granted.call.id,
                name=granted.call.name,
                outcome=outcome.finish,
                content=outcome.content,
            )
        )

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
