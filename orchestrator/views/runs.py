"""Runs as a client asks for them and sees them: what `/api/runs` takes and answers.

Times are seconds since the Unix epoch; amounts are tokens and micro-dollars.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agents.amounts import Limits
from agents.events import NextStep
from agents.lifecycle import State, StopReason
from agents.messages import Message, Usage
from agents.observation import Observed
from orchestrator.views.approvals import ApprovalView

PriorityName = Literal["interactive", "standard", "batch"]


class AgentChoice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who works: a configured `agent`, or a plain one, without tools, made from the other fields.

    An empty `model` is the daemon's default model. With `agent` none of the other fields may be given: an agent is
    what its configuration says.
    """

    agent: str = ""
    model: str = ""
    system: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None


class RunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to start.

    `session` names the conversation that it goes on with, or begins; empty begins one called like the run. At most one
    run of a session is open. Where a session goes on, `task` may be empty: the agent goes on where its last run
    stopped; and `who` need not be given: it is whoever worked last. `grant` raises the agent's own limits for this run,
    field by field, for one that a limit stopped.

    `run` is an id of the client's own choice: starting it again is refused, so a lost answer can be found out.
    `priority` None is the tenant's default; `budget` lowers the agent's own limits, field by field. `expires_in` is in
    seconds: a run that has not ended by then is worth nothing any more. `traceparent` is the W3C trace context that the
    run belongs to; the header of that name goes before it.
    """

    task: str
    who: AgentChoice = AgentChoice()
    run: str = ""
    tenant: str = "default"
    job: str = ""
    priority: PriorityName | None = None
    budget: Limits = Limits()
    session: str = ""
    grant: Limits = Limits()
    expires_in: float | None = None
    traceparent: Annotated[str, Meta(max_length=64)] = ""


class LimitUse(Struct, frozen=True, kw_only=True):
    """One limit of a run: `used`, of `allowed`. `limit` is its name in `agents.amounts.Limits`, which has the unit."""

    limit: str
    used: float
    allowed: float


class RunView(Struct, frozen=True, kw_only=True):
    """One run in a list. `reason` is set exactly when it has ended; `micro_dollars` None is unknown.

    `limits` are the run's own, as far as it has any; `waits_for` says what its open call or request waits for, in the
    words of `held_by` elsewhere, empty where nothing waits.
    """

    run: str
    session: str = ""
    agent: str
    model: str
    tenant: str
    job: str
    priority: PriorityName
    state: State
    observed: Observed
    reason: StopReason | None
    created: float
    started: float | None
    ended: float | None
    rounds: int
    tool_calls: int
    usage: Usage
    micro_dollars: int | None
    message: str
    parent: str = ""
    limits: tuple[LimitUse, ...] = ()
    waits_for: str = ""


class OutputPiece(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="output"):
    """What the model of a run has said since the piece before: `text`, and `reasoning`. `call` is `RUN/STEP/ATTEMPT`.

    With `reset` all earlier pieces of the call are void, since it was begun again. `cut` says that pieces before this
    one were left out, for a reader that was slow. The whole reply is in the log when it has ended.
    """

    run: str
    call: str
    text: str = ""
    reasoning: str = ""
    reset: bool = False
    cut: bool = False


class LateResult(Struct, frozen=True, kw_only=True):
    """What a tool call came to that had been abandoned: the model was told otherwise, and somebody should look."""

    id: str
    tool: str
    outcome: Literal["ok", "error"]
    content: str
    at: float


class RunDetail(RunView, frozen=True, kw_only=True):
    """One run, whole. `answer` is what a completed run said, `partial` the last words of any other that has ended.

    Where a limit stopped it, `limit` of `scope` allowed `allowed` and `observed_amount` was spent. `next` says what
    helps. `approvals` are what people are asked and have not answered. `unknown_effects` are calls that were cut off,
    `late` what some of them came to: both need a look. Work that was abandoned may go on beyond the run's end: until
    `quiescent` where that is set, and still where the run is not `at_rest`. `events` counts its log; `messages` is the
    transcript so far.
    """

    answer: str = ""
    partial: str = ""
    scope: str = ""
    limit: str = ""
    allowed: float | None = None
    observed_amount: float | None = None
    unknown_tokens: int = 0
    approvals: tuple[ApprovalView, ...] = ()
    unknown_effects: tuple[str, ...] = ()
    late: tuple[LateResult, ...] = ()
    quiescent: float | None = None
    at_rest: bool = True
    next: NextStep = "none"
    events: int = 0
    messages: tuple[Message, ...] = ()


class RunPage(Struct, frozen=True, kw_only=True):
    """A page of runs, the newest first. `next` is the cursor of the following page, empty on the last.

    `total` counts the runs that match, on all pages; `states` counts all runs the daemon knows, by state.
    """

    runs: tuple[RunView, ...]
    next: str
    total: int
    states: dict[str, int]
