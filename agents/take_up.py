"""Taking up what an earlier executor left open, and going on where a session's last run ended.

A run is taken up as its log says it stands. What was under way when its executor went away, nobody knows: a model call
is closed as `lost`, with all it held counted as unknown; a started tool call is made again with the same key where it
was declared repeatable and still is, and is closed as an unknown effect where not. What was decided stays decided: an
answer stays an answer, and one that should have ended the run ends it now. Calls that were not started are decided
anew, and a reply that nobody has judged is judged.

Downtime counts: the run's clocks go on from when it was first started, by the wall clock. Only the time in which all
that it waited for was people does not.
"""

import math
from typing import Final

import trio

from agents.amounts import Amounts
from agents.events import RunResumed
from agents.fold import transcript
from agents.lifecycle import StopReason
from agents.messages import Message
from agents.open_calls import settle_left_open
from agents.open_step import OpenStep
from agents.origin import CannotContinue
from agents.pending import Pending
from agents.result import Stop
from agents.run_state import RunState
from agents.snapshot import CallSnapshot, RunSnapshot, StepSnapshot
from agents.spec import AgentSpec
from agents.tools import BadArguments

MOST_RESUMES: Final = 3
"""How often a run is taken up without a newly sealed step; then it fails, since it may be what kills its executors."""


def what_it_adds(agent: AgentSpec, task: str | tuple[Message, ...], history: RunSnapshot) -> tuple[Message, ...]:
    """What a further run of a session adds to its transcript. Raises `CannotContinue`."""
    created = history.created
    if history.ended is None:
        raise CannotContinue(f"run {created.run} of the session is still open: wait for its end, or tell it")
    if created.agent != agent.name:
        raise CannotContinue(f"the session is agent {created.agent}'s, so agent {agent.name} cannot go on with it")
    if task:
        return (Message("user", task),) if isinstance(task, str) else task
    before = transcript(history)
    if not before or before[-1].role not in {"user", "tool"}:
        raise CannotContinue(f"run {created.run} ended with an answer: say what comes next")
    return ()


def opening_of(transcript: tuple[Message, ...], task: str | tuple[Message, ...]) -> int:
    """How many messages come before the task; a system prompt that the task itself brings is one of them."""
    before = len(transcript) - (1 if isinstance(task, str) else len(task))
    return before or int(bool(transcript) and transcript[0].role == "system")


def expiry_of(snapshot: RunSnapshot, wall: float) -> float:
    """When the run is worth nothing any more, on trio's clock; `wall` is now, in seconds since the epoch."""
    expiry = snapshot.created.expiry
    return math.inf if expiry is None else trio.current_time() + expiry - wall


def restore(state: RunState, snapshot: RunSnapshot, wall: float) -> None:
    """Puts the run where its log says it stands. Its own scope then holds what it used, and what it may have used."""
    state.left_open = snapshot
    state.inbox = list(snapshot.inbox)
    state.opening, state.context = snapshot.opening, snapshot.context
    state.rounds, state.attempts, state.tool_calls = snapshot.rounds, snapshot.attempts, snapshot.tool_calls
    state.usage, state.partial = snapshot.usage, snapshot.partial
    state.micro_dollars = None if state.price is None else snapshot.micro_dollars
    state.unknown_effects = list(snapshot.unknown_effects)
    state.depth, state.children, state.below = snapshot.created.depth, set(snapshot.children), snapshot.below
    state.scope.used, state.scope.unknown = snapshot.used, snapshot.unknown
    if snapshot.started is not None:
        waits = max(0.0, wall - snapshot.waiting_since) if snapshot.waiting else 0.0
        lived = wall - snapshot.started - snapshot.waited - waits
        state.scope.started = trio.current_time() - max(0.0, lived)
    request = snapshot.open_request
    if request is not None:
        state.scope.unknown += Amounts(tokens=request.reserved_tokens, micro_dollars=request.reserved_micro_dollars)
        state.micro_dollars = None
    if snapshot.open_step is not None:
        _restore_step(state, snapshot.open_step)
    if snapshot.cancel is not None:
        state.hear((snapshot.cancel,))


async def go_on(state: RunState, snapshot: RunSnapshot) -> Stop | None:
    """Says what became of what was open, and that the run goes on; a reason to stop, if there is one."""
    left = settle_left_open(state)
    await state.log.append(*left, RunResumed(run=state.run, at=state.wall(), generation=state.generation))
    if state.cancel is None and snapshot.resumes >= MOST_RESUMES:
        message = f"the run was taken up {snapshot.resumes} times and got no further"
        return Stop(StopReason.INTERNAL_ERROR, message)
    return state.cancel


def _restore_step(state: RunState, snapshot: StepSnapshot) -> None:
    step = state.open_step = OpenStep(snapshot.number, snapshot.reply, snapshot.shrunk_by)
    state.messages.append(snapshot.reply.message)
    for call in snapshot.calls:
        if call.outcome is not None:
            step.answers[call.index] = call.content
            step.exhausted = step.exhausted or call.limit
            continue
        if call.started:
            step.started[call.index] = call.repeatable and _still_repeatable(state, call)
        if call.question is not None:
            step.asked[call.index] = Pending(call.question.requested, call.question.answered)
        elif call.approval is not None:
            step.asked[call.index] = Pending(call.approval.requested, call.approval.decided)


def _still_repeatable(state: RunState, call: CallSnapshot) -> bool:
    tool = state.tools.get(call.call.name)
    if tool is None or not tool.repeatable:
        return False
    try:
        tool.decode(call.call.arguments)
    except BadArguments:
        return False
    return True
