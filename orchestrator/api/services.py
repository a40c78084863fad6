"""What the HTTP surface needs from the rest of the daemon, as narrow ports; the daemon plugs the real ones in."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from agents.amounts import Limits
from agents.port import Priority
from orchestrator.api.call_services import Budgets, Calls
from orchestrator.api.identity import Client
from orchestrator.api.worker_services import NO_WORKERS, Workers
from orchestrator.policy.allowance import Allowances
from orchestrator.views.approvals import ApprovalList, ApprovalView
from orchestrator.views.explain import CallExplanation, RunExplanation, SlowCalls
from orchestrator.views.jobs import JobList, JobRequest, JobView
from orchestrator.views.queue import CapabilitiesView, QueueView
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView
from orchestrator.views.sessions import ImportReport, PruneReport, SessionDetail, SessionPage

Observed = Literal["pending", "running", "done", "failed"]


class Runs(Protocol):
    """Runs, those that are open and those that have ended. Every method raises `UnknownRun` for an id nobody knows, and
    `StoreError` where the store cannot answer.

    What comes from outside (`cancel`, `message`, `grant`) is durable when the method returns. The same `key` again
    changes nothing, so that a request whose answer got lost can be sent again; empty is a new one.
    """

    async def start(self, request: RunRequest) -> RunView:
        """Starts a run and returns as soon as it exists.

        Raises `DuplicateRun`, `InvalidLimits`, `UnknownAgent`, `UnknownModel`; `SessionBusy` where a run of its session
        is open; `QueueFull` where the tenant has as many runs as it may, `Draining` while the daemon ends.
        """
        ...

    async def view(self, run: str) -> RunView: ...

    async def detail(self, run: str) -> RunDetail: ...

    async def page(
        self,
        *,
        observed: frozenset[Observed] = frozenset(),
        tenant: str = "",
        job: str = "",
        session: str = "",
        cursor: str = "",
        size: int = 100,
        within: str = "",
    ) -> RunPage:
        """Runs that match, the newest first; empty filters match all. Raises `InvalidLimits` for a bad cursor.

        Where `within` names a tenant, the runs of all others do not exist, in the counts by state either.
        """
        ...

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state; of all tenants where none is named."""
        ...

    async def cancel(
        self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled", *, key: str = ""
    ) -> RunView:
        """Acknowledges the cancellation; for a run that has ended it changes nothing."""
        ...

    async def message(self, run: str, content: str, *, key: str = "") -> RunView:
        """Says something to the run while it works: the model reads it with its next request.

        Raises `RunOver` where the run has ended, `InvalidLimits` for an empty message.
        """
        ...

    async def grant(self, run: str, limits: Limits, *, key: str = "") -> RunView:
        """Gives the run other limits of its own, field by field; None leaves a limit as it is.

        Raises `RunOver` where the run has ended, `InvalidLimits` where nothing is granted.
        """
        ...

    async def wait(self, run: str) -> RunDetail:
        """The run, when it has ended."""
        ...

    def events(
        self, run: str, after: int = 0, *, follow: bool = True, output: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; with `follow` new ones as they come, until it has ended.

        Numbers are its session's, the same for ever; where the session has one run, they count from 1. With `output`
        there are also `OutputPiece`s of what its model says, while it says it, numbered 0. A reader that
        is slow slows nobody. `UnknownRun` is raised by the first step.
        """
        ...


class Approvals(Protocol):
    """What people are asked by runs that wait for them, also by those that an earlier daemon left waiting.

    Every method that names a request raises `UnknownApproval` for one that nobody knows, and `StoreError` where the
    store cannot answer. A decision is durable when the method returns, and there is one only: the first in the log.
    """

    async def list_open(self, *, tenant: str = "", job: str = "", run: str = "", size: int = 1000) -> ApprovalList:
        """The open requests, the oldest first; empty filters match all."""
        ...

    async def show(self, id: str) -> ApprovalView:
        """One request, open or decided."""
        ...

    async def decide(
        self,
        id: str,
        decision: Literal["approved", "denied"],
        *,
        by: str,
        note: str = "",
        digest: str = "",
        key: str = "",
    ) -> ApprovalView:
        """Approves or denies it. To say again what was decided already is no error.

        Raises `AlreadyDecided` where somebody or the clock decided otherwise, or the run was taken away before;
        `NotAsked` where it cannot be decided like this: another `digest`, a question that is to be approved.
        """
        ...

    async def answer(self, id: str, content: str, *, by: str, key: str = "") -> ApprovalView:
        """Answers a question. Raises as `decide` does, `NotAsked` also for an approval, `InvalidLimits`."""
        ...

    def watch(self, *, tenant: str = "") -> AsyncGenerator[ApprovalList, None]:
        """The open requests now, and again whenever they have changed, without end."""
        ...


class Sessions(Protocol):
    """Sessions: conversations with a log of their own. Every method that names one raises `UnknownSession`, and
    `StoreError` where the store cannot answer.
    """

    async def view(self, session: str) -> SessionDetail:
        """One session with its latest runs."""
        ...

    async def page(self, *, tenant: str = "", cursor: str = "", size: int = 100) -> SessionPage:
        """Sessions in the order of their names; of all tenants where none is named."""
        ...

    def export(self, session: str) -> AsyncGenerator[bytes, None]:
        """The log as it is at this moment, as JSON Lines; the first step raises `UnknownSession`."""
        ...

    async def take_in(self, log: AsyncIterator[bytes], *, tenant: str = "") -> ImportReport:
        """Makes a session of an exported log, in pieces of any size; `tenant` stands in for the one it names.

        Raises `DuplicateSession` where the session or one of its runs is known, `UnknownEvent` for an event that this
        version cannot read, `BadLog` for a log that is none or was cut short. Nothing was taken in then. A run
        that was open is taken up.
        """
        ...

    async def prune(self, before: float, *, dry_run: bool = False) -> PruneReport:
        """Removes what nobody has touched since `before` (seconds since the epoch), or says what that would be."""
        ...


class Jobs(Protocol):
    """Jobs. Every method raises `UnknownJob` for an id nobody knows."""

    async def create(self, request: JobRequest) -> JobView:
        """Raises `DuplicateJob`, `InvalidLimits`, `TemplateError`, `UnknownAgent`, `UnknownModel`, `Draining`."""
        ...

    def view(self, job: str) -> JobView: ...

    def list(self) -> JobList: ...

    async def upload(self, job: str, offset: int, body: AsyncIterator[bytes]) -> JobView:
        """Appends inputs at `offset`, in bytes; what is acknowledged is on disk.

        Raises `WrongOffset` where `offset` is not the view's `upload_offset`, `InputError` where inputs are complete.
        """
        ...

    async def complete(self, job: str) -> JobView:
        """There will be no more inputs. Repeating it changes nothing. Raises `InputError` for a last line torn off."""
        ...

    async def cancel(self, job: str) -> JobView:
        """Ends the job; for one that has ended it changes nothing."""
        ...

    async def retry(self, job: str, *, only_failed: bool = False) -> JobView:
        """Runs what failed, was cancelled or never began once more; with `only_failed` what failed, and nothing else.

        Raises `InputError` while the job is live.
        """
        ...

    async def remove(self, job: str) -> None:
        """Deletes a job that has ended, with its inputs and results. Raises `InputError` while it is live."""
        ...

    def results(self, job: str, offset: int = 0, *, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """The results from a byte offset on, whole lines; with `follow` new ones as they come, until the job ended."""
        ...

    def watch(self, job: str) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed (a few times a second at most), until it has ended."""
        ...


class Explanations(Protocol):
    """Why calls and runs waited. `sees` says whether whoever asks may know of a tenant. All raise `StoreError`."""

    async def call(self, key: str, sees: Callable[[str], bool]) -> CallExplanation:
        """Raises `UnknownCall`."""
        ...

    async def run(self, run: str, sees: Callable[[str], bool]) -> RunExplanation:
        """Raises `UnknownRun`."""
        ...

    async def slowest(
        self, seconds: float, *, tenant: str, job: str, size: int, sees: Callable[[str], bool]
    ) -> SlowCalls: ...


class Services(Struct, frozen=True, kw_only=True):
    """Everything the routes need. `ready` says why the daemon cannot serve, or None; `metrics` is a scrape's body.

    `identify` says by a request's headers whose it is; it raises `Unauthorized`, `Forbidden`, and `InvalidLimits` for a
    tenant's name that is none. `open_metrics`: `/metrics` asks for no key.
    `max_tokens` is a model's own bound on its output in tokens, None where none is configured; `allowances` what a
    tenant has left where that model is served; `wall` the time in seconds since the epoch. `answered` is told path and
    status of every answer; `waits_for` says of open runs what they wait for;
    `traced` is told a call's key and the headers of the request for it.
    """

    runs: Runs
    jobs: Jobs
    calls: Calls
    queue: Callable[[], Awaitable[QueueView]]
    capabilities: Callable[[], CapabilitiesView]
    priority: Callable[[str, Priority | None], Priority]
    model: Callable[[str], str]
    ready: Callable[[], str | None]
    metrics: Callable[[], bytes]
    identify: Callable[[Mapping[str, str]], Client]
    budgets: Budgets
    sessions: Sessions
    approvals: Approvals
    explain: Explanations
    workers: Workers = NO_WORKERS
    open_metrics: bool = False
    max_tokens: Callable[[str], int | None] = lambda model: None
    allowances: Callable[[str, str], Allowances] = lambda model, tenant: {}
    wall: Callable[[], float] = time.time
    answered: Callable[[str, int], None] = lambda path, status: None
    waits_for: Callable[[], Mapping[str, str]] = dict
    traced: Callable[[str, Mapping[str, str]], None] = lambda key, headers: None
