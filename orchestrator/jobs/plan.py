"""A request for a job, checked whole before anything is made, and what it comes to."""

import math
import secrets
from typing import Final

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.catalogue import Catalogue
from orchestrator.jobs.files import LARGEST_JOB_NAME
from orchestrator.jobs.planner import item_template
from orchestrator.jobs.record import JobRecord
from orchestrator.jobs.synthesis import check_synthesis
from orchestrator.views.jobs import JobRequest
from orchestrator.views.names import check_name
from orchestrator.views.runs import PriorityName

PRIORITIES: Final[dict[PriorityName, Priority]] = {
    "interactive": Priority.INTERACTIVE,
    "standard": Priority.STANDARD,
    "batch": Priority.BATCH,
}
_NAMES: Final = {priority: name for name, priority in PRIORITIES.items()}


class JobsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs of one job are live at once, if it says nothing, and at most. Raises `InvalidLimits`."""

    workers: int = 64
    most_workers: int = 10_000

    def __post_init__(self) -> None:
        for field in ("workers", "most_workers"):
            value = getattr(self, field)
            if type(value) is not int or value < 1:
                raise InvalidLimits(field, f"a whole number, 1 or more, not {value!r}")
        if self.workers > self.most_workers:
            raise InvalidLimits("workers", f"at most most_workers ({self.most_workers}), not {self.workers}")


def plan_job(request: JobRequest, catalogue: Catalogue, config: JobsConfig, now: float) -> JobRecord:
    """The record of a job to be made.

    Raises `InvalidLimits`, `TemplateError`, `UnknownAgent`, `UnknownModel`.
    """
    check_name("tenant", request.tenant)
    check_name("name", request.name)
    job = check_name("job", request.job) if request.job else _made_up(request.name)
    if len(job) > LARGEST_JOB_NAME:
        raise InvalidLimits("job", f"at most {LARGEST_JOB_NAME} characters, not {len(job)}")
    if not (math.isfinite(request.weight) and request.weight > 0):
        raise InvalidLimits("weight", f"more than 0 and finite, not {request.weight!r}")
    workers = config.workers if request.workers is None else request.workers
    if not 1 <= workers <= config.most_workers:
        raise InvalidLimits("workers", f"from 1 to {config.most_workers}, not {workers}")
    if request.debate is None:
        item_template(request)
    elif not request.prompt.strip():
        raise InvalidLimits("prompt", "is what the debate is about, and is empty")
    if request.synthesis is not None:
        check_synthesis(request.synthesis)
    agent = catalogue.agent(request.first)
    others = [beside.who for beside in (request.planner, request.synthesis) if beside is not None and beside.who]
    if request.debate is not None:
        others += request.debate.critics
    for one in (agent, *map(catalogue.agent, others)):
        if request.budget.micro_dollars is not None and catalogue.prices.price(one.model) is None:
            problem = f"money cannot be limited, since model {one.model!r} has no price"
            raise InvalidLimits("budget.micro_dollars", problem)
    wanted = None if request.priority is None else PRIORITIES[request.priority]
    return JobRecord(
        job=job,
        request=request,
        agent=agent.name,
        model=agent.model,
        priority=_NAMES[catalogue.priority(request.tenant, wanted)],
        workers=1 if request.debate is not None else workers,
        created=now,
        granted_at=now,
        since=now,
        complete=request.debate is not None,
    )


def _made_up(name: str) -> str:
    """An id of the job's name and something short that makes it its own."""
    suffix = f"-{secrets.token_hex(4)}"
    return name[: LARGEST_JOB_NAME - len(suffix)] + suffix
