"""Jobs as a client asks for them and sees them: what `/api/jobs` takes and answers.

A job is created, then its inputs are uploaded as JSON Lines (one `InputLine` each) at byte offsets; what the daemon
has acknowledged is on its disk. The daemon starts working with the first line and knows the end when it is told.
Results are JSON Lines as well, one `orchestrator.jobs.job.ItemResult` each, readable from any byte offset.

Times are seconds since the Unix epoch; amounts are tokens and micro-dollars.
"""

from typing import Any, Literal

from msgspec import Struct

from agents.budget import Limits
from agents.messages import Usage
from orchestrator.views.runs import AgentChoice, PriorityName

JobPhase = Literal["running", "stopping", "done", "failed", "stopped", "cancelled", "interrupted"]
"""`running` and `stopping` are live. `interrupted`: left before its end; the daemon goes on with it."""

LIVE_PHASES = frozenset({"running", "stopping"})


class InputLine(Struct, frozen=True, omit_defaults=True):
    """One uploaded input. Either `fields`, or a `problem` that the client met reading it (a failed item)."""

    origin: str
    fields: dict[str, Any] = {}
    problem: str = ""


class JobRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to create. `prompt` is a template: {field} stands for an input's field.

    `job` is an id of the client's own choice. `workers` bounds its live runs, None is the daemon's default; `weight`
    is its part of the tenant's service against the tenant's other jobs. `budget` is shared by all its runs.
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


class JobView(Struct, frozen=True, kw_only=True):
    """One job. `received` counts uploaded items, `complete` says that there will be no more.

    `upload_offset` is how many bytes of inputs are on disk: an upload goes on from there. `micro_dollars` None is
    unknown. `message` says why it ended early, if it did. `failures` counts failed items by reason, `errors` are the
    first few in words.
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


class JobList(Struct, frozen=True, kw_only=True):
    """All jobs the daemon knows, the newest first."""

    jobs: tuple[JobView, ...]
