"""What is kept of a job beside its inputs and results: `job.json`, and the lines of `results.jsonl`."""

from typing import Final

from msgspec import Struct

from agents.amounts import NOTHING, Amounts
from agents.messages import Usage
from orchestrator.jobs.job import ItemResult
from orchestrator.views.jobs import LIVE_PHASES, JobPhase, JobRequest
from orchestrator.views.runs import AgentChoice, PriorityName, RunRequest

FORMAT: Final = 1
"""The version of the folder's layout, in `job.json`."""

PLAN: Final = "plan"
REPAIR: Final = "plan-repair"
SYNTHESIS: Final = "synthesis"
"""How the runs of a job are called that are no item's. The repair goes on with the plan's session."""

OPEN_PHASES: Final = LIVE_PHASES | {"interrupted"}
"""Phases of a job whose last attempt has no end: some daemon goes on with it."""


NEVER_BEGUN: Final = "never begun, since the job had closed"
"""The error of an item that has a line only because its job closed before."""


class JobLine(ItemResult, frozen=True):
    """One line of `results.jsonl`: an item's result, what it cost, and in which attempt at the job it came about.

    An item that a later attempt runs again gets another line behind the first. The last line of an ordinal counts. A
    failed round of a debate is `final` where no further round can mend it.
    """

    micro_dollars: int | None = None
    attempt: int = 1
    final: bool = False

    @property
    def never_begun(self) -> bool:
        """Whether nothing was done about the item."""
        return self.error == NEVER_BEGUN


class JobSummary(Struct, frozen=True, omit_defaults=True):
    """What the lines of `results.jsonl` come to.

    `done` and `failed` count ordinals by their last line, so together they are the items that have a result. `usage`
    and `micro_dollars` sum over all lines, since superseded ones were paid for as well; None is unknown. `spent` is
    what lines since the present grant of the job's budget have used, `unknown` what they may have used besides.
    """

    done: int = 0
    failed: int = 0
    usage: Usage = Usage()
    micro_dollars: int | None = 0
    failures: dict[str, int] = {}
    errors: tuple[str, ...] = ()
    spent: Amounts = NOTHING
    unknown: Amounts = NOTHING


class JobRecord(Struct, frozen=True, kw_only=True):
    """`job.json`: what the job's log came to when this was written. Times are seconds since the epoch.

    Its events come behind number `behind`, and `events` is the number of the last one that this knows of; a log that
    has gone on knows better. `attempt` rises with each retry. The job's budget was last granted at `granted_at`,
    for `granted_attempt` and those after it. `received` and `upload_offset` say how many lines and bytes of inputs
    there were; the file itself may be longer. Workers of the last attempt may run `since` then; `cancelled` items
    were begun in it and taken away. `plan` is what the items' prompt says of it, whichever attempt planned.
    `answer` is the synthesis', or a debate's last proposal. `summary` holds once the job has ended.
    """

    format: int = FORMAT
    job: str
    request: JobRequest
    agent: str
    model: str
    priority: PriorityName
    workers: int
    created: float
    phase: JobPhase = "running"
    ended: float | None = None
    attempt: int = 1
    granted_attempt: int = 1
    granted_at: float
    since: float = 0.0
    complete: bool = False
    received: int = 0
    upload_offset: int = 0
    cancelled: int = 0
    message: str = ""
    plan: str = ""
    answer: str = ""
    summary: JobSummary = JobSummary()
    behind: int = 0
    events: int = 0

    def run(self, ordinal: int) -> str:
        """The id of an item's run: whoever goes on with the attempt asks for the same one again."""
        return self.beside(str(ordinal))

    def beside(self, name: str) -> str:
        """The id of the attempt's run of this name: `PLAN`, `REPAIR` or `SYNTHESIS`."""
        again = f".{self.attempt}" if self.attempt > 1 else ""
        return f"{self.job}.{name}{again}"

    def asking(self, run: str, task: str, who: AgentChoice | None = None) -> RunRequest:
        """The request for a run of this job; who works is whoever the job asks for, unless it is said."""
        request = self.request
        return RunRequest(
            task=task,
            who=request.who if who is None else who,
            run=run,
            tenant=request.tenant,
            job=self.job,
            priority=self.priority,
        )
