"""How a run is wound up: every open call is answered, and what the run came to is told."""

from msgspec.structs import replace

from agents.events import Event, RunEnded
from agents.lifecycle import TERMINAL_STATE, State, StopReason
from agents.log import JournalLost
from agents.open_calls import answer_the_rest, settle_left_open
from agents.open_step import OpenStep
from agents.result import NEXT_STEPS, RunResult, Stop, at_most
from agents.run_state import RunState

_SHARED = set(RunEnded.__struct_fields__) & set(RunResult.__struct_fields__)


def seal(state: RunState, step: OpenStep) -> None:
    """The run goes on from the step: its results join the transcript."""
    state.messages += step.messages()
    state.open_step = None


async def close(state: RunState, stop: Stop) -> RunResult:
    """Writes the closing event behind all that it needs before it. Raises `JournalLost`."""
    state.closing = True
    events = settle_left_open(state)
    if stop.source:
        events += state.untold_cancel()
    events += _wind_up(state)
    result = result_of(state, stop)
    await state.log.append(*events, run_ended(state, result))
    state.lifecycle.end(stop.reason)
    # what somebody said while the run was ending belongs to the session's transcript as well
    return replace(result, messages=(*state.messages, *state.read_inbox()))


def close_unlogged(state: RunState, lost: JournalLost) -> RunResult:
    """The journal has no closing event; only whoever asks for the result learns how the run ended."""
    state.closing = True
    settle_left_open(state)
    _wind_up(state)
    stop = Stop(StopReason.INTERNAL_ERROR, lost.message)
    state.lifecycle.end(stop.reason)
    return result_of(state, stop)


def _wind_up(state: RunState) -> list[Event]:
    step = state.open_step
    if step is None:
        return []
    events = answer_the_rest(state, step, "its run was ending")
    seal(state, step)
    return events


def result_of(state: RunState, stop: Stop) -> RunResult:
    """The run as it ends here."""
    limit = stop.limit
    completed = TERMINAL_STATE[stop.reason] is State.COMPLETED
    return RunResult(
        run=state.run,
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
        unknown_micro_dollars=at_most(state.micro_dollars, state.scope.used, state.scope.unknown),
        below=state.below,
        rounds=state.rounds,
        tool_calls=state.tool_calls,
        unknown_effects=tuple(state.unknown_effects),
        next=stop.next or NEXT_STEPS[stop.reason],
        messages=(*state.messages, *state.read_inbox()),
    )


def run_ended(state: RunState, result: RunResult) -> RunEnded:
    shared = {field: getattr(result, field) for field in _SHARED}
    return RunEnded(at=state.wall(), quiescent=state.abandoned.quiescent, **shared)
