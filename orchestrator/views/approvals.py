"""What people are asked, and what they say: what `/api/approvals` takes and answers.

A request's `id` is the key of its tool call, `RUN/STEP/INDEX`: the run, the step of it, the call's place in that reply.
Times are seconds since the Unix epoch.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from orchestrator.views.names import Key

LONGEST_NOTE: Final = 4_000
"""Characters."""
LONGEST_NAME: Final = 100
"""Characters."""

RequestKind = Literal["approval", "input"]
Outcome = Literal["approved", "denied", "expired", "answered", "void"]


class ApprovalView(Struct, frozen=True, kw_only=True):
    """One request: a tool call that people must approve (`arguments`, and `why` they are asked), or a `question`.

    `digest` stands for the tool and its arguments: a decision that names it decides on exactly these. A `question` is
    answered with one of its `options`, if there are any, or in free words. It counts as denied after `expires`, None
    for never. `outcome` is None while it is open, and `void` where its run was taken away or ended before
    anybody decided; otherwise `by`, `note` and `decided` say who decided, why (or the answer itself), and when.
    """

    id: str
    kind: RequestKind
    run: str
    session: str
    tenant: str
    job: str
    agent: str
    tool: str
    asked: float
    expires: float | None = None
    arguments: str = ""
    digest: str = ""
    why: str = ""
    question: str = ""
    options: tuple[str, ...] = ()
    outcome: Outcome | None = None
    by: str = ""
    note: str = ""
    decided: float | None = None


class ApprovalList(Struct, frozen=True, kw_only=True):
    """The open requests, the oldest first. `total` counts those that match, also where they are too many to show."""

    approvals: tuple[ApprovalView, ...] = ()
    total: int = 0


Note = Annotated[str, Meta(max_length=LONGEST_NOTE)]
Name = Annotated[str, Meta(max_length=LONGEST_NAME)]


class DecisionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision on one request. A question can be denied, which leaves it without an answer.

    `note` is told to the model of a call that was denied. With a `digest` the decision is refused unless it is that of
    the request. `by` is the name of whoever decides; where keys are needed, the log names the key as well. `key` is an
    id of the client's own choice: the same one again decides nothing twice.
    """

    decision: Literal["approved", "denied"]
    note: Note = ""
    digest: str = ""
    by: Name = ""
    key: Key = ""


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a question, word for word as the model reads it. `by` and `key` are as in `DecisionRequest`."""

    content: str
    by: Name = ""
    key: Key = ""
