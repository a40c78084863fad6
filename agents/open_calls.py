"""What becomes of calls whose end nobody will ever know, and of tool calls that nobody will make any more."""

from typing import Final

from agents.answers import EXECUTOR_LOST, NOT_STARTED
from agents.events import Event, ModelFailed, ToolFinished
from agents.execute import ended_open
from agents.lifecycle import StopReason
from agents.open_step import OpenStep
from agents.result import Stop
from agents.run_state import RunState
from agents.snapshot import StepSnapshot
from agents.tool_plan import Refused

LOST: Final = "the executor went away before the answer"

_FAILURES: Final = (("unknown_tool", "bad_arguments"), ("error", "timeout"), ("unknown_effect",))
"""Outcomes by which a call may end its run, in the order in which a step comes to them."""


def settle_left_open(state: RunState) -> list[Event]:
    """Closes what cannot be gone on with, once."""
    snapshot, state.left_open = state.left_open, None
    if snapshot is None:
        return []
    events: list[Event] = []
    request = snapshot.open_request
    if request is not None:
        events.append(
            ModelFailed(
                run=state.run,
                at=state.wall(),
                step=request.step,
                attempt=request.attempt,
                kind="lost",
                message=LOST,
                unknown_tokens=request.reserved_tokens,
                unknown_micro_dollars=request.reserved_micro_dollars,
                purpose=request.purpose,
            )
        )
    step = state.open_step
    if step is not None:
        lost = [index for index, _ in step.unanswered() if not step.started.get(index, True)]
        events += [finish_open(state, step, index, EXECUTOR_LOST) for index in lost]
        step.stop = _stop_for(state, step, snapshot.open_step)
    return events


def answer_the_rest(state: RunState, step: OpenStep, why: str) -> list[Event]:
    """Answers each call that has no answer, and says so. `why` is told of those that were started."""
    events: list[Event] = []
    for index, call in step.unanswered():
        if index in step.started:
            events.append(finish_open(state, step, index, why))
            continue
        step.answers[index] = NOT_STARTED
        events.append(Refused(index, call, "not_started", NOT_STARTED).event(state, step))
    return events


def finish_open(state: RunState, step: OpenStep, index: int, why: str) -> ToolFinished:
    """The answer of a started call of whose end nothing is known."""
    call = step.calls[index]
    outcome = ended_open("cancelled", why, repeatable=step.started[index])
    step.answers[index] = outcome.content
    if outcome.finish == "unknown_effect":
        state.unknown_effects.append(step.key(state.run, index))
    return ToolFinished(
        run=state.run,
        at=state.wall(),
        step=step.number,
        index=index,
        call=call.id,
        name=call.name,
        outcome=outcome.finish,
        content=outcome.content,
    )


def _stop_for(state: RunState, step: OpenStep, snapshot: StepSnapshot | None) -> Stop | None:
    """Where a failing call ends the run: the call that did. One that was cut off, maybe because of it, comes last."""
    if state.agent.on_tool_error != "stop" or snapshot is None:
        return None
    closed = {i for i, repeatable in step.started.items() if not repeatable}
    outcomes = {call.index: "unknown_effect" if call.index in closed else call.outcome for call in snapshot.calls}
    for failures in _FAILURES:
        for index, outcome in outcomes.items():
            if outcome in failures:
                return Stop(StopReason.TOOL_ERROR, step.answers[index] or "")
    return None
