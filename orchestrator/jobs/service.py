"""The daemon's jobs: made, fed, watched, cancelled, tried again and removed by id.

A job's work runs in the service's nursery. What happened to it stands in its log in the store (`jobs.events`), its
inputs and results in its folder (`jobs.files`). So a job outlives its daemon: one that was live when the daemon ended,
however it did, is gone on with by the next. Items that finished are not run again, runs that were open go on where
they were, and what was spent of the budget stays spent.

Draining: `close` first (nothing new, live items may end). Then the run service leaves or takes away its runs, and their
items end without a line. `hurry` takes away whatever is left, and `all_ended` says when everything is kept. To cancel a
live item is to cancel its run for good, so with runs that can be left open, `close` is given no grace.
"""

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Final

import structlog
import trio

from agents.budget import Scope
from agents.errors import Draining, InvalidLimits
from orchestrator.catalogue import Catalogue
from orchestrator.jobs.budget import JobBudgets
from orchestrator.jobs.driver import SHUTTING_DOWN, JobDriver, SetWeight
from orchestrator.jobs.entry import JobEntry
from orchestrator.jobs.errors import JobConflict, JobStorageError, UnknownJob
from orchestrator.jobs.events import JobStopping
from orchestrator.jobs.keeper import JobKeeper
from orchestrator.jobs.plan import JobsConfig, plan_job
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.results import read_results
from orchestrator.jobs.shelf import JobShelf
from orchestrator.store.base import Store
from orchestrator.store.errors import StoreError
from orchestrator.store.memory import MemoryStore
from orchestrator.views.jobs import JobList, JobRequest, JobView

CANCELLED: Final = "cancelled on request"
DEFAULTS: Final = JobsConfig()

THREADS: Final = 16
"""File operations of jobs at once; more wait their turn, so a slow disk takes no threads away from tools."""

_log = structlog.get_logger("headrace.jobs")


class JobService:
    """Implements `orchestrator.api.services.Jobs`, over `DATA_DIR/jobs`. Call `open` before anything else.

    `attempts` is how many tries a run's call has (see `Fuse`); `parent` gives the scope above a tenant's jobs; `wall`
    gives seconds since the epoch. Without a `store` logs are kept in memory, and a job that another daemon goes on with
    is known by its folder only.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        data_dir: Path,
        *,
        runs: RunsToEnd,
        catalogue: Callable[[], Catalogue],
        on_weight: SetWeight = lambda tenant, job, weight: None,
        config: JobsConfig = DEFAULTS,
        attempts: int = 1,
        parent: Callable[[str], Scope | None] = lambda tenant: None,
        wall: Callable[[], float] = time.time,
        store: Store | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._config = config
        self._wall = wall
        self._limiter = trio.CapacityLimiter(THREADS)
        self._shelf = JobShelf(data_dir / "jobs", self._limiter)
        kept = MemoryStore(wall) if store is None else store
        driver = JobDriver(
            nursery,
            runs=runs,
            store=kept,
            on_weight=on_weight,
            attempts=attempts,
            wall=wall,
            limiter=self._limiter,
            go_on=self._go_on,
        )
        self._keeper = JobKeeper(
            kept,
            driver,
            runs=runs,
            budgets=JobBudgets(runs, parent, wall),
            agent=lambda who: self._catalogue().agent(who),
            wall=wall,
            limiter=self._limiter,
        )
        self._closed = False
        self._grace = math.inf

    async def open(self) -> None:
        """Finds the jobs of earlier daemons, and goes on with those that have not ended.

        Raises `JobStorageError` where the folder itself cannot be used. A job's folder that cannot be read is told in
        the log and left alone; a job that cannot be gone on with is shown with the reason.
        """
        entries = await self._shelf.found()
        await self._keeper.announce()
        for found in entries:
            if isinstance(found, str):
                _log.warning(found)
                continue
            async with found.control:
                if not await self._keeper.open(found):
                    await self._shelf.discard(found)

    def __repr__(self) -> str:
        return f"<JobService {self.live} live of {len(self._shelf.entries)}{' closed' * self._closed}>"

    @property
    def live(self) -> int:
        """Jobs that have not ended."""
        return self._shelf.live

    @property
    def going_on(self) -> frozenset[str]:
        """Jobs that ask for their own runs, now or as soon as what is in their way is gone."""
        return frozenset(
            job for job, entry in self._shelf.entries.items() if entry.live or entry.record.phase == "interrupted"
        )

    async def create(self, request: JobRequest) -> JobView:
        """Makes a job, which waits for inputs.

        Raises `DuplicateJob`, `InvalidLimits`, `TemplateError`, `UnknownAgent`, `UnknownModel`, `Draining`,
        `JobStorageError`.
        """
        self._refuse_if_closed()
        catalogue = self._catalogue()
        record = plan_job(request, catalogue, self._config, self._wall())
        agent = catalogue.agent(request.first)
        with self._shelf.name(record.job):
            record = await self._keeper.plan(record)
            entry = await self._shelf.make(record, lambda entry: self._keeper.begin(entry, agent))
            self._close_if_closed(entry)
        return entry.view()

    def view(self, job: str) -> JobView:
        return self._shelf.find(job).view()

    def list(self) -> JobList:
        return self._shelf.list()

    async def upload(self, job: str, offset: int, body: AsyncIterator[bytes]) -> JobView:
        """Appends inputs at `offset`, in bytes; what is acknowledged is on disk.

        Raises `WrongOffset` where `offset` is not the view's `upload_offset`, `JobConflict` where inputs are complete
        or the job has ended for good, `JobStorageError`, `Draining`, and what the body raises.
        """
        entry = self._shelf.find(job)
        self._refuse_if_closed()
        _refuse_if_planned(entry)
        if not entry.takes_inputs:
            raise JobConflict(f"job {job} has ended ({entry.phase}) and takes no inputs")
        await entry.spool.append(offset, body)
        return entry.view()

    async def complete(self, job: str) -> JobView:
        """There will be no more inputs. Repeating it changes nothing. Raises `JobConflict` for a last line torn off."""
        async with self._shelf.control(job) as entry:
            if not entry.spool.complete:
                _refuse_if_planned(entry)
                self._refuse_if_closed()
                await entry.spool.finish(lambda: self._keeper.complete(entry))
                await entry.save()
        return entry.view()

    async def cancel(self, job: str) -> JobView:
        """Ends the job; for one that has ended it changes nothing."""
        work = self._shelf.find(job).work
        if work is not None:
            work.stop("cancelled", CANCELLED)
        async with self._shelf.control(job) as entry:
            if work is not None and entry.work is work:
                try:
                    with trio.CancelScope(shield=True):
                        await work.append(JobStopping(at=self._wall(), phase="cancelled", message=CANCELLED))
                    entry.stand(phase="stopping", message=CANCELLED)
                    await entry.save()
                except (StoreError, JobStorageError) as error:  # it ends all the same
                    _log.error("a cancellation could not be kept", job=job, problem=error.message)
            elif not entry.live and entry.record.phase == "interrupted":
                await self._keeper.give_up(entry, CANCELLED)
        return entry.view()

    async def retry(self, job: str, *, only_failed: bool = False) -> JobView:
        """Runs what failed, was cancelled or never began once more; with `only_failed` what failed, and nothing else.

        Raises `JobConflict` while the job is live, `Draining`, `UnknownAgent`, `UnknownModel`, `JobStorageError`.
        """
        async with self._shelf.control(job) as entry:
            if entry.live:
                raise JobConflict(f"job {job} is live ({entry.phase}); it can be tried again when it has ended")
            self._refuse_if_closed()
            agent = self._catalogue().agent(entry.record.request.first)
            await self._keeper.retry(entry, agent, only_failed=only_failed)
            self._close_if_closed(entry)
        return entry.view()

    async def remove(self, job: str) -> None:
        """Deletes a job that has ended, with its inputs and results. Raises `JobConflict`, `JobStorageError`."""
        async with self._shelf.control(job) as entry:
            if entry.live:
                raise JobConflict(f"job {job} is live ({entry.phase}); cancel it first")
            async with entry.spool.closed(UnknownJob(f"there is no job {job} any more")):
                await self._keeper.removed(entry)
                await self._shelf.discard(entry)

    def results(self, job: str, offset: int = 0, *, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """The results from a byte offset on, whole lines; with `follow` new ones as they come, until the job ended.

        An item tried again has several lines, and the last of them counts. Raises `InvalidLimits` for an offset
        beyond the end.
        """
        entry = self._shelf.find(job)
        if not 0 <= offset <= entry.results.size:
            raise InvalidLimits("offset", f"from 0 to {entry.results.size}, the bytes of results so far, not {offset}")
        return read_results(entry.results, offset, follow=follow, limiter=self._limiter)

    def watch(self, job: str) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed (at most 4 times a second), until it has ended."""
        return self._shelf.find(job).watch()

    def close(self, grace: float = math.inf) -> None:
        """Takes no new jobs, uploads and items; live items have `grace` seconds, and are cancelled then.

        May be called again.
        """
        self._closed = True
        self._grace = min(self._grace, grace)
        for entry in self._shelf.entries.values():
            self._close(entry)

    def hurry(self) -> None:
        """Takes live items away at once; their jobs are left `interrupted`."""
        for entry in self._shelf.entries.values():
            if entry.work is not None:
                entry.work.hurry()

    async def all_ended(self) -> None:
        """Returns when no job is live and all is on disk."""
        while (entry := next((entry for entry in self._shelf.entries.values() if entry.live), None)) is not None:
            await entry.ended.wait()

    async def _go_on(self, entry: JobEntry) -> None:
        """Some time after it had to be left."""
        async with entry.control:
            if not self._shelf.has(entry) or entry.record.phase != "interrupted":
                return
            if not (entry.live or self._closed):
                await self._keeper.open(entry)
                self._close_if_closed(entry)

    def _close_if_closed(self, entry: JobEntry) -> None:
        if self._closed:  # meanwhile
            self._close(entry)

    def _close(self, entry: JobEntry) -> None:
        entry.spool.close(Draining(SHUTTING_DOWN))
        if entry.work is not None:
            entry.work.stop("interrupted", SHUTTING_DOWN, grace=self._grace)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Draining(f"{SHUTTING_DOWN} and takes nothing new")


def _refuse_if_planned(entry: JobEntry) -> None:
    if entry.record.request.debate is not None:
        raise JobConflict(f"job {entry.job} is a debate about its prompt; nothing can be uploaded")
    if not entry.record.request.takes_inputs:
        raise JobConflict(f"job {entry.job} has a planner, which makes its inputs; nothing can be uploaded")
