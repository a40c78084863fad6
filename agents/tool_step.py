"""The tool calls of one reply: checked in the model's order, run together, answered in the model's order.

What is refused (see `agents.tool_plan`) is answered with the reason, so that the transcript stays whole, and only
calls that will run are paid for. Then the granted calls start in order, while people are asked about the others (see
`agents.people_step`).
"""

import trio

from agents.open_step import OpenStep
from agents.origin import RunParked
from agents.people_step import PeopleStep
from agents.result import Stop
from agents.run_state import RunState
from agents.tool_calls import Calls
from agents.tool_plan import ONE_CALL, Plan, first_error, plan_calls


async def tool_step(state: RunState, step: OpenStep) -> Stop | None:
    """Answers every call of the step; a reason to stop, or None to go on with the results.

    A granted call that in the end was never started is given back to the budget. Raises `RunParked` where all that is
    left are calls that wait for people.
    """
    if step.stop is not None:
        return step.stop
    plan = plan_calls(state, step)
    calls = Calls(state, step, plan.granted)
    people = PeopleStep(state, step, plan, calls)
    try:
        failed = first_error(state, plan)
        refusals = [refused.event(state, step) for refused in plan.refused]
        if failed is not None or not await people.ask(refusals):
            await state.log.append(*refusals)
        for refused in plan.refused:
            step.answers[refused.index] = refused.content
        stop = failed or await _answer(state, plan, calls, people)
        if stop is not None:
            return stop
    finally:
        for granted in plan.granted:
            if not granted.started:
                state.scope.give_back(ONE_CALL)
        people.close()
    exhausted = plan.exhausted or calls.exhausted
    return None if exhausted is None else Stop.exhausted(exhausted)


async def _answer(state: RunState, plan: Plan, calls: Calls, people: PeopleStep) -> Stop | None:
    to_start = tuple(plan.granted)
    while to_start or people.open:
        async with trio.open_nursery() as nursery:
            for granted in to_start:
                await calls.start(nursery, granted)
            await people.settle(nursery)
        to_start = ()
        if calls.lost is not None:
            raise calls.lost
        if state.leaving:
            await trio.lowlevel.checkpoint()  # what was not started is the next executor's
        if calls.ending:
            break
        if people.open and await people.park():
            raise RunParked(f"run {state.run} waits for people")
    return calls.stop or state.cancel
