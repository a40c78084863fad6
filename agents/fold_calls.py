"""What events do to one call of the open step, and how a step has it in its place. Pure.

People are asked about a call once, before it starts, and the first of their answers that counts is the one; everything
else leaves the call as it is.
"""

from msgspec.structs import replace

from agents.answered import counts
from agents.events import ApprovalDecided, ApprovalRequested, InputRequested
from agents.people_events import Answered, Asked
from agents.snapshot import ApprovalSnapshot, CallSnapshot, QuestionSnapshot, StepSnapshot


def unanswered(step: StepSnapshot, index: int) -> CallSnapshot | None:
    """The step's call in this place; None where there is none, or it has its answer."""
    if not 0 <= index < len(step.calls):
        return None
    call = step.calls[index]
    return call if call.outcome is None else None


def with_call(step: StepSnapshot, call: CallSnapshot) -> StepSnapshot:
    """The step with this call in the place of the one that it had there."""
    return replace(step, calls=(*step.calls[: call.index], call, *step.calls[call.index + 1 :]))


def asked_about(call: CallSnapshot, event: Asked) -> CallSnapshot:
    """The call when people have been asked like this."""
    if call.started:
        return call
    if isinstance(event, ApprovalRequested):
        return call if call.approval is not None else replace(call, approval=ApprovalSnapshot(requested=event))
    return call if call.question is not None else replace(call, question=QuestionSnapshot(requested=event))


def answered_by_people(call: CallSnapshot, event: Answered) -> CallSnapshot | None:
    """The call when people have said this; None where it doesn't count."""
    asked = call.asked
    if asked is None or not counts(asked, event):
        return None
    if isinstance(asked, InputRequested):
        return replace(call, question=QuestionSnapshot(requested=asked, answered=event))
    assert isinstance(event, ApprovalDecided), "an answer in words counts for a question only"
    return replace(call, approval=ApprovalSnapshot(requested=asked, decided=event))


def with_child(call: CallSnapshot, child: str) -> CallSnapshot:
    """The call when it has given a part of its work to this run."""
    return call if child in call.children else replace(call, children=(*call.children, child))
