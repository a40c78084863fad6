"""What a log comes to: where a session and the last of its runs stand, as data. `agents.fold` makes it."""

from msgspec import Struct

from agents.amounts import NOTHING, UNLIMITED, Amounts, Limits
from agents.budget import Exhausted
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Finish,
    InputGiven,
    InputRequested,
    ModelRequested,
    Refusal,
    RunCreated,
    RunEnded,
    ToolLate,
)
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.people_events import Asked, Reason


class ApprovalSnapshot(Struct, frozen=True, kw_only=True):
    """What people were asked to approve, and the one decision that counts."""

    requested: ApprovalRequested
    decided: ApprovalDecided | None = None


class QuestionSnapshot(Struct, frozen=True, kw_only=True):
    """What people were asked, and the one answer that counts, or that none will come."""

    requested: InputRequested
    answered: InputGiven | ApprovalDecided | None = None


class CallSnapshot(Struct, frozen=True, kw_only=True):
    """One tool call of the step that is open. `outcome` is None while it has no answer; `content` is the answer.

    `repeatable` says that it was declared idempotent or read-only when it was started. `children` are the runs to which
    it gave parts of the work.
    """

    index: int
    call: ToolCall
    key: str = ""
    started: bool = False
    repeatable: bool = False
    outcome: Finish | Refusal | None = None
    content: str = ""
    limit: Exhausted | None = None
    approval: ApprovalSnapshot | None = None
    question: QuestionSnapshot | None = None
    children: tuple[str, ...] = ()

    @property
    def asked(self) -> Asked | None:
        """What people are asked about this call, and have not answered."""
        if self.outcome is not None or self.started:
            return None
        if self.approval is not None and self.approval.decided is None:
            return self.approval.requested
        if self.question is not None and self.question.answered is None:
            return self.question.requested
        return None


class StepSnapshot(Struct, frozen=True, kw_only=True):
    """A reply that the run has not gone on from: its calls, answered or not, in the model's order."""

    number: int
    reply: ModelReply
    shrunk_by: Exhausted | None = None
    calls: tuple[CallSnapshot, ...] = ()


class RunSnapshot(Struct, frozen=True, kw_only=True):
    """Where a run stands, or how it ended. Times are seconds since the epoch.

    `messages` is the transcript as the next request of the model has it, the session's earlier runs included, without
    what is `open_step`'s and without the `inbox`: messages from outside that no request has had yet. `opening` is how
    many messages lead it that no summary ever stands for. `open_request` is a model call whose end is not known.
    `context` is what the provider counted of the transcript up to its last answer, in tokens; None where it did not
    say, or a summary has shortened it since. `used` and `unknown` are what the run's own scope holds. `resumes` counts
    since the last newly sealed step or wait for people, and `attempts` since that step: model calls that were
    announced, whatever their purpose. `waiting` says for what it waits while people are all it waits for, since
    `waiting_since`; `waited` is how many seconds it did so before. `late` is what abandoned calls came to,
    `children` are all the runs that it has started, and `below` is the part of `used` that is theirs.
    """

    created: RunCreated
    limits: Limits = UNLIMITED
    started: float | None = None
    messages: tuple[Message, ...] = ()
    opening: int = 0
    inbox: tuple[str, ...] = ()
    open_step: StepSnapshot | None = None
    open_request: ModelRequested | None = None
    context: int | None = None
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    micro_dollars: int | None = 0
    partial: str = ""
    unknown_effects: tuple[str, ...] = ()
    used: Amounts = NOTHING
    unknown: Amounts = NOTHING
    cancel: CancelRequested | None = None
    resumes: int = 0
    attempts: int = 0
    waited: float = 0.0
    waiting: tuple[Reason, ...] = ()
    waiting_since: float = 0.0
    late: tuple[ToolLate, ...] = ()
    children: tuple[str, ...] = ()
    below: Amounts = NOTHING
    ended: RunEnded | None = None

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What people are asked and have not answered; nothing any more once the run was taken away."""
        if self.open_step is None or self.cancel is not None or self.ended is not None:
            return ()
        return tuple(asked for call in self.open_step.calls if (asked := call.asked) is not None)


class SessionSnapshot(Struct, frozen=True, kw_only=True):
    """Where a session stands: its runs in order, and the last of them whole. `events` is how many were folded."""

    runs: tuple[str, ...] = ()
    last: RunSnapshot | None = None
    events: int = 0
