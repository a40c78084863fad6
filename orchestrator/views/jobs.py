"""Jobs as a client asks for them and sees them: what `/api/jobs` takes and answers.

A job is created, then its inputs are uploaded as JSON Lines (one `InputLine` each) at byte offsets; what the daemon
has acknowledged is on its disk. The daemon starts working with the first line and knows the end when it is told.
Results are JSON Lines as well, one `orchestrator.jobs.job.ItemResult` each, readable from any byte offset.

Times are seconds since the Unix epoch; amounts are tokens and micro-dollars.
"""

import math
from typing import Any, Literal

from msgspec import Struct

from agents.amounts import Limits
from agents.debate import MOST_ROUNDS
from agents.errors import InvalidLimits
from agents.messages import Usage
from orchestrator.views.runs import AgentChoice, PriorityName

JobPhase = Literal["running", "stopping", "done", "failed", "stopped", "cancelled", "interrupted"]
"""`running` and `stopping` are live. `interrupted`: left before its end; the daemon goes on with it."""

LIVE_PHASES = frozenset({"running", "stopping"})

MOST_SUBTASKS = 1000
MOST_DEBATE_ROUNDS = 200

JobStage = Literal["planning", "working", "synthesis", "ended"]
"""What a job is at: its planner makes the plan, workers run them, the synthesis writes the answer, or none of it."""

GatherPolicy = Literal["all", "settle", "quorum", "first", "deadline", "converge"]
"""When a job has enough: `settle` when every item has ended, `all` so too but its first failure stops the rest,
`quorum` when `count` are done, `first` when `count` have ended whether done or failed, `deadline` after `seconds`,
`converge` when a debate brings nothing new any more."""


PlanGoes = Literal["inputs", "prompt"]
"""What a plan is: the inputs of its job, or a part of the prompt for all of them."""


class InputLine(Struct, frozen=True, omit_defaults=True):
    """One uploaded input. Either `fields`, or a `problem` that the client met reading it (a failed item)."""

    origin: str
    fields: dict[str, Any] = {}
    problem: str = ""


class GatherRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a job closes; what is under way then is cancelled. `seconds` count from when its workers may start.

    `quorum` and `first` need `count`. `deadline` needs `seconds`, and fails where fewer than `count` are done by then.
    Raises `InvalidLimits`, naming the field.
    """

    policy: GatherPolicy = "settle"
    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        counted = self.policy in ("quorum", "first")
        if self.count is None and counted:
            raise InvalidLimits("count", f"is needed by the policy {self.policy}: how many items are enough")
        if self.count is not None:
            if not counted and self.policy != "deadline":
                raise InvalidLimits("count", f"is for the policies quorum, first and deadline, not for {self.policy}")
            if self.count < 1:
                raise InvalidLimits("count", f"a whole number, 1 or more, not {self.count!r}")
        if (self.seconds is None) == (self.policy == "deadline"):
            is_for = "is needed by the policy deadline" if self.seconds is None else "is for the policy deadline only"
            raise InvalidLimits("seconds", is_for)
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidLimits("seconds", f"more than 0 seconds and finite, not {self.seconds!r}")


class PlannerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who plans the job: a run that answers `task` with a list of 1 to `most` subtasks.

    They go `to` the job's inputs, a {text} each, or to the prompt of its items, where {plan} stands for all of them as
    a numbered list. `who` None is whoever works at the items. Raises `InvalidLimits`, naming the field.
    """

    task: str
    who: AgentChoice | None = None
    most: int = 20
    to: PlanGoes = "inputs"

    def __post_init__(self) -> None:
        if not self.task.strip():
            raise InvalidLimits("task", "says what is to be planned, and is empty")
        if not 1 <= self.most <= MOST_SUBTASKS:
            raise InvalidLimits("most", f"from 1 to {MOST_SUBTASKS} subtasks, not {self.most}")


class DebateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who debates the job's prompt: a proposer, None for whoever the job asks for, and one critic or more.

    Each round is a run; there are at most `most_rounds` in an attempt at the job. `agents.debate` has the rules. Raises
    `InvalidLimits`, naming the field.
    """

    critics: tuple[AgentChoice, ...]
    proposer: AgentChoice | None = None
    most_rounds: int = MOST_ROUNDS

    def __post_init__(self) -> None:
        if not self.critics:
            raise InvalidLimits("critics", "at least one, since nobody else can say that a debate has converged")
        if not 1 <= self.most_rounds <= MOST_DEBATE_ROUNDS:
            raise InvalidLimits("most_rounds", f"from 1 to {MOST_DEBATE_ROUNDS} rounds, not {self.most_rounds}")


class SynthesisRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who writes the job's answer: a run on `prompt`, a template in which {results} stands for the table of items and
    {job} for the job's name.

    `share` of each of the job's limits is kept for it. `who` None is whoever works at the items. Raises
    `InvalidLimits`, naming the field.
    """

    prompt: str
    who: AgentChoice | None = None
    share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InvalidLimits("share", f"more than 0 and less than 1, not {self.share!r}")


class JobRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to create. `prompt` is a template: {field} stands for an input's field.

    `job` is an id of the client's own choice. `workers` bounds its live runs, None is the daemon's default; `weight`
    is its part of the tenant's service against the tenant's other jobs. `budget` is shared by all its runs.
    With a `planner` whose plan is the inputs none are uploaded, and with a `debate` neither: that is what the policy
    converge is for, and `prompt` is then its subject, word for word. Raises `InvalidLimits`, naming the field.
    """

    prompt: str
    who: AgentChoice = AgentChoice()
    job: str = ""
    name: str = "job"
    tenant: str = "default"
    priority: PriorityName | None = None
    weight: float = 1.0
    workers: int | None = None
    ordered: bool = False
    fail_fast: bool = False
    budget: Limits = Limits()
    gather: GatherRequest = GatherRequest()
    planner: PlannerRequest | None = None
    synthesis: SynthesisRequest | None = None
    debate: DebateRequest | None = None

    def __post_init__(self) -> None:
        check_debate(self.gather, self.debate)
        if self.debate is not None:
            for field in ("planner", "synthesis", "ordered", "fail_fast"):
                if getattr(self, field):
                    raise InvalidLimits(field, "a debate has none; leave it out")

    @property
    def takes_inputs(self) -> bool:
        """Whether its inputs are uploaded."""
        return self.debate is None and (self.planner is None or self.planner.to == "prompt")

    @property
    def first(self) -> AgentChoice:
        """Who works at its items, or proposes in its debate."""
        return self.who if self.debate is None or self.debate.proposer is None else self.debate.proposer


def check_debate(gather: GatherRequest, debate: DebateRequest | None) -> None:
    """Raises `InvalidLimits` for a debate without its policy, and for the policy without its debate."""
    if debate is None and gather.policy == "converge":
        raise InvalidLimits("debate", "is needed by the policy converge: who criticises, and who proposes")
    if debate is not None and gather.policy != "converge":
        raise InvalidLimits("debate", f"is for the policy converge, not for {gather.policy}")


class JobView(Struct, frozen=True, kw_only=True):
    """One job. `received` counts uploaded items, `complete` says that there will be no more.

    `upload_offset` is how many bytes of inputs are on disk: an upload goes on from there. `micro_dollars` None is
    unknown. `message` says why it ended early, if it did. `failures` counts failed items by reason, `errors` are the
    first few in words. `answer` is the synthesis', or a debate's last proposal. `usage` and `micro_dollars` are those
    of items, planner and synthesis.
    """

    job: str
    name: str
    tenant: str
    priority: PriorityName
    agent: str
    model: str
    weight: float
    workers: int
    phase: JobPhase
    created: float
    ended: float | None
    received: int
    complete: bool
    upload_offset: int
    done: int
    failed: int
    live: int
    cancelled: int
    usage: Usage
    micro_dollars: int | None
    message: str
    failures: dict[str, int]
    errors: tuple[str, ...]
    result_bytes: int
    stage: JobStage = "working"
    gather: GatherRequest = GatherRequest()
    answer: str = ""
    debate: DebateRequest | None = None


class JobList(Struct, frozen=True, kw_only=True):
    """All jobs the daemon knows, the newest first."""

    jobs: tuple[JobView, ...]
