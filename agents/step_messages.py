"""What follows from a snapshot's parts: a step as the model reads it, limits after a grant. Pure."""

from msgspec.structs import replace

from agents.amounts import Limits
from agents.answers import CUT_OFF, EXECUTOR_LOST, NOT_STARTED, UNKNOWN_EFFECT
from agents.messages import Message
from agents.snapshot import CallSnapshot, StepSnapshot


def step_messages(step: StepSnapshot) -> tuple[Message, ...]:
    """A step as the model reads it: its reply, and one answer per call, in order."""
    answers = (Message("tool", answer_of(call), tool_call_id=call.call.id) for call in step.calls)
    return step.reply.message, *answers


def answered_messages(step: StepSnapshot) -> tuple[Message, ...]:
    """Its reply, and the answers that there are, in order."""
    done = (call for call in step.calls if call.outcome is not None)
    return step.reply.message, *(Message("tool", call.content, tool_call_id=call.call.id) for call in done)


def answer_of(call: CallSnapshot) -> str:
    """What the model is told of this call, answered or not."""
    if call.outcome is not None:
        return call.content
    if not call.started:
        return NOT_STARTED
    return (CUT_OFF if call.repeatable else UNKNOWN_EFFECT).format(why=EXECUTOR_LOST)


def raised(limits: Limits, grant: Limits) -> Limits:
    """`limits` with those of the grant in their place, field by field; None leaves a limit as it was."""
    fields = Limits.__struct_fields__
    return replace(limits, **{field: getattr(grant, field) for field in fields if getattr(grant, field) is not None})
