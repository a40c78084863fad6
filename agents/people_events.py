"""The events by which a run asks people, and by which they answer.

A call that needs approval is asked about before it starts, with a digest of what would run; a question is the work of
its call, which starts and finishes when it is answered. Either has a `key`, the call's own, by which it is answered.
The first answer that counts is the one (`agents.answered` says which do), and later ones are evidence.
"""

from typing import Literal

from agents.event_base import RunEvent

Decision = Literal["approved", "denied", "expired"]
Reason = Literal["approval", "input"]


class ApprovalRequested(RunEvent, frozen=True, kw_only=True, tag="approval_requested"):
    """Whether this call may run is for people to say. `why` is `always`, or the rule that asks.

    `digest` stands for the tool and these `arguments` (`agents.answered.digest_of`). An approval is worth nothing after
    `expires`, in seconds since the epoch; None for never.
    """

    step: int
    index: int
    call: str
    name: str
    key: str
    arguments: str
    digest: str
    expires: float | None = None
    why: str = ""


class ApprovalDecided(RunEvent, frozen=True, kw_only=True, tag="approval_decided"):
    """Somebody decided (`by`), or time did (`clock`). A `digest` binds the decision to what whoever decided has seen.

    A question can be decided on as well, but not approved: then it stays without an answer.
    """

    key: str
    decision: Decision
    by: str
    note: str = ""
    digest: str = ""


class InputRequested(RunEvent, frozen=True, kw_only=True, tag="input_requested"):
    """A question that people answer, with one of the `options` where there are any or in words of their own."""

    step: int
    index: int
    call: str
    name: str
    key: str
    question: str
    options: tuple[str, ...] = ()
    expires: float | None = None


class InputGiven(RunEvent, frozen=True, kw_only=True, tag="input_given"):
    """Somebody's answer to the question of this key."""

    key: str
    content: str
    by: str


class RunWaiting(RunEvent, frozen=True, kw_only=True, tag="run_waiting"):
    """Nothing of the run is open but what people were asked; its executor gives back all that it holds of it.

    The time from here to whatever goes on with the run counts to no timeout.
    """

    reasons: tuple[Reason, ...]


Asked = ApprovalRequested | InputRequested
Answered = ApprovalDecided | InputGiven
