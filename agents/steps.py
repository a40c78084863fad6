"""The steps of a run: ask the model, judge its answer, run its tools, and again, until there is a reason to stop."""

from agents.closing import seal
from agents.compact_step import compact_if_due
from agents.events import RunStarted
from agents.judge import judge
from agents.model_step import model_step
from agents.result import Stop
from agents.run_state import RunState
from agents.take_up import go_on
from agents.tool_step import tool_step


async def begin(state: RunState) -> Stop:
    """Begins the run, or goes on where an earlier executor left it; the reason why it stops."""
    left = state.left_open
    state.begin()
    if left is None or left.started is None:
        await state.log.append(RunStarted(run=state.run, at=state.wall()))
        state.left_open = None
        return await _steps(state)
    return await go_on(state, left) or await _steps(state)


async def _steps(state: RunState) -> Stop:
    while True:
        step = state.open_step
        if step is None:
            await state.leave_if_due()
            answer = await compact_if_due(state) or await model_step(state)
            if isinstance(answer, Stop):
                return answer
            state.messages.append(answer.reply.message)
            step = state.open_step = answer
        stop = state.cancel or judge(step, state.agent.response_format)
        if stop is None:
            await state.leave_if_due()
            stop = await tool_step(state, step)
        if stop is not None:
            return stop
        seal(state, step)
