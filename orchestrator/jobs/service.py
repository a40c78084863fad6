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
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog
import trio

from agents.budget import Scope
from agents.errors import Draining, InvalidLimits
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.jobs.driver import SHUTTING_DOWN, JobDriver, SetWeight
from orchestrator.jobs.entry import JobEntry
from orchestrator.jobs.errors import DuplicateJob, JobConflict, JobStorageError, UnknownJob
from orchestrator.jobs.events import JobStopping
from orchestrator.jobs.files import JobFiles, StoredJob
from orchestrator.jobs.keeper import JobKeeper
from orchestrator.jobs.lines import NO_INPUTS
from orchestrator.jobs.plan import JobsConfig, plan_job
from orchestrator.jobs.record import JobRecord
from orchestrator.jobs.results import read_results
from orchestrator.jobs.work import RunsToEnd
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
        self._files = JobFiles(data_dir / "jobs")
        self._catalogue = catalogue
        self._config = config
        self._wall = wall
        self._limiter = trio.CapacityLimiter(THREADS)
        driver = JobDriver(
            nursery,
            runs=runs,
            on_weight=on_weight,
            attempts=attempts,
            wall=wall,
            limiter=self._limiter,
            parent=parent,
            go_on=self._go_on,
        )
        self._keeper = JobKeeper(
            MemoryStore(wall) if store is None else store,
            driver,
            runs=runs,
            agent=lambda who: self._catalogue().agent(who),
            wall=wall,
            limiter=self._limiter,
        )
        self._jobs: dict[str, JobEntry] = {}
        self._making: set[str] = set()
        self._closed = False
        self._grace = math.inf

    async def open(self) -> None:
        """Finds the jobs of earlier daemons, and goes on with those that have not ended.

        Raises `JobStorageError` where the folder itself cannot be used. A job's folder that cannot be read is told in
        the log and left alone; a job that cannot be gone on with is shown with the reason.
        """
        for found in await trio.to_thread.run_sync(lambda: list(self._files.open()), limiter=self._limiter):
            if isinstance(found, str):
                _log.warning(found)
                continue
            entry = self._add(found)
            async with entry.control:
                if not await self._keeper.open(entry):
                    await self._discard(entry)

    def __repr__(self) -> str:
        return f"<JobService {self.live} live of {len(self._jobs)}{' closed' * self._closed}>"

    @property
    def live(self) -> int:
        """Jobs that have not ended."""
        return sum(entry.live for entry in self._jobs.values())

    @property
    def going_on(self) -> frozenset[str]:
        """Jobs that ask for their own runs, now or as soon as what is in their way is gone."""
        return frozenset(job for job, entry in self._jobs.items() if entry.live or entry.record.phase == "interrupted")

    async def create(self, request: JobRequest) -> JobView:
        """Makes a job, which waits for inputs.

        Raises `DuplicateJob`, `InvalidLimits`, `TemplateError`, `UnknownAgent`, `UnknownModel`, `Draining`,
        `JobStorageError`.
        """
        self._refuse_if_closed()
        catalogue = self._catalogue()
        record = plan_job(request, catalogue, self._config, self._wall())
        job = record.job
        if job in self._jobs or job in self._making:
            raise DuplicateJob(f"there is a job {job} already")
        self._making.add(job)
        try:
            entry = await self._make(record, catalogue.agent(request.who))
        finally:
            self._making.remove(job)
        return entry.view()

    def view(self, job: str) -> JobView:
        return self._find(job).view()

    def list(self) -> JobList:
        entries = sorted(self._jobs.values(), key=lambda entry: (-entry.record.created, entry.job))
        return JobList(jobs=tuple(entry.view() for entry in entries))

    async def upload(self, job: str, offset: int, body: AsyncIterator[bytes]) -> JobView:
        """Appends inputs at `offset`, in bytes; what is acknowledged is on disk.

        Raises `WrongOffset` where `offset` is not the view's `upload_offset`, `JobConflict` where inputs are complete
        or the job has ended for good, `JobStorageError`, `Draining`, and what the body raises.
        """
        entry = self._find(job)
        self._refuse_if_closed()
        if not entry.takes_inputs:
            raise JobConflict(f"job {job} has ended ({entry.phase}) and takes no inputs")
        await entry.spool.append(offset, body)
        return entry.view()

    async def complete(self, job: str) -> JobView:
        """There will be no more inputs. Repeating it changes nothing. Raises `JobConflict` for a last line torn off."""
        async with self._control(job) as entry:
            if not entry.spool.complete:
                self._refuse_if_closed()
                await entry.spool.finish(lambda: self._keeper.complete(entry))
                await entry.save()
        return entry.view()

    async def cancel(self, job: str) -> JobView:
        """Ends the job; for one that has ended it changes nothing."""
        work = self._find(job).work
        if work is not None:
            work.stop("cancelled", CANCELLED)
        async with self._control(job) as entry:
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

    async def retry(self, job: str) -> JobView:
        """Runs what failed, was cancelled or never began once more.

        Raises `JobConflict` while the job is live, `Draining`, `UnknownAgent`, `UnknownModel`, `JobStorageError`.
        """
        async with self._control(job) as entry:
            if entry.live:
                raise JobConflict(f"job {job} is live ({entry.phase}); it can be tried again when it has ended")
            self._refuse_if_closed()
            await self._keeper.retry(entry, self._catalogue().agent(entry.record.request.who))
            self._close_if_closed(entry)
        return entry.view()

    async def remove(self, job: str) -> None:
        """Deletes a job that has ended, with its inputs and results. Raises `JobConflict`, `JobStorageError`."""
        async with self._control(job) as entry:
            if entry.live:
                raise JobConflict(f"job {job} is live ({entry.phase}); cancel it first")
            async with entry.spool.closed(UnknownJob(f"there is no job {job} any more")):
                await self._keeper.removed(entry)
                await self._discard(entry)

    def results(self, job: str, offset: int = 0, *, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """The results from a byte offset on, whole lines; with `follow` new ones as they come, until the job ended.

        An item tried again has several lines, and the last of them counts. Raises `InvalidLimits` for an offset
        beyond the end.
        """
        entry = self._find(job)
        if not 0 <= offset <= entry.results.size:
            raise InvalidLimits("offset", f"from 0 to {entry.results.size}, the bytes of results so far, not {offset}")
        return read_results(entry.results, offset, follow=follow, limiter=self._limiter)

    def watch(self, job: str) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed (at most 4 times a second), until it has ended."""
        return self._find(job).watch()

    def close(self, grace: float = math.inf) -> None:
        """Takes no new jobs, uploads and items; live items have `grace` seconds, and are cancelled then.

        May be called again.
        """
        self._closed = True
        self._grace = min(self._grace, grace)
        for entry in self._jobs.values():
            self._close(entry)

    def hurry(self) -> None:
        """Takes live items away at once; their jobs are left `interrupted`."""
        for entry in self._jobs.values():
            if entry.work is not None:
                entry.work.hurry()

    async def all_ended(self) -> None:
        """Returns when no job is live and all is on disk."""
        while (entry := next((entry for entry in self._jobs.values() if entry.live), None)) is not None:
            await entry.ended.wait()

    async def _make(self, record: JobRecord, agent: AgentSpec) -> JobEntry:
        """The job, begun; nothing is left of it where that fails."""
        record = await self._keeper.plan(record)
        folder = self._files.folder(record.job)
        await trio.to_thread.run_sync(folder.create, record, limiter=self._limiter)
        entry = self._add(StoredJob(record, NO_INPUTS, 0))
        try:
            await self._keeper.begin(entry, agent)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._discard(entry)
            raise
        self._close_if_closed(entry)
        return entry

    async def _discard(self, entry: JobEntry) -> None:
        await trio.to_thread.run_sync(entry.folder.remove, limiter=self._limiter)
        del self._jobs[entry.job]

    async def _go_on(self, entry: JobEntry) -> None:
        """Some time after it had to be left."""
        async with entry.control:
            if self._jobs.get(entry.job) is not entry or entry.record.phase != "interrupted":
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

    def _find(self, job: str) -> JobEntry:
        try:
            return self._jobs[job]
        except KeyError:
            raise UnknownJob(f"there is no job {job}") from None

    @asynccontextmanager
    async def _control(self, job: str) -> AsyncGenerator[JobEntry, None]:
        """The job, for whoever changes where it stands; others wait for their turn."""
        entry = self._find(job)
        async with entry.control:
            if self._jobs.get(job) is not entry:  # removed meanwhile
                raise UnknownJob(f"there is no job {job} any more")
            yield entry

    def _add(self, stored: StoredJob) -> JobEntry:
        entry = JobEntry(self._files.folder(stored.record.job), stored, self._limiter)
        self._jobs[entry.job] = entry
        return entry
