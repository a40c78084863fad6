"""Jobs and their logs: begun, taken up again, tried once more, completed and ended for whoever asks.

Whoever calls holds the entry's `control`, except while the service opens and nobody else is there. All methods raise
`JobStorageError` where store or disk take or give nothing, and then nothing was changed, or the next who takes the job
up finds out what was.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import structlog
import trio

from agents.errors import HeadraceError
from agents.events import UnknownEvent
from agents.spec import AgentSpec
from orchestrator.jobs.budget import JobBudgets
from orchestrator.jobs.driver import JobDriver
from orchestrator.jobs.entry import JobEntry
from orchestrator.jobs.errors import JobConflict, JobStorageError
from orchestrator.jobs.events import AttemptStarted, InputsComplete, JobEnded, JobRemoved
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.log import JobLog
from orchestrator.jobs.open_runs import cancel_open
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import OPEN_PHASES, JobRecord
from orchestrator.jobs.recovery import Recovery, TakenUp
from orchestrator.store.base import Store
from orchestrator.store.errors import StoreError, UnknownSession
from orchestrator.views.jobs import LIVE_PHASES
from orchestrator.views.runs import AgentChoice

_log = structlog.get_logger("headrace.jobs")


class JobKeeper:
    """Begins attempts through `driver`. `agent` gives the agent a job asks for, `wall` seconds since the epoch."""

    def __init__(
        self,
        store: Store,
        driver: JobDriver,
        *,
        runs: RunsToEnd,
        budgets: JobBudgets,
        agent: Callable[[AgentChoice], AgentSpec],
        wall: Callable[[], float],
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._store = store
        self._recovery = Recovery(store, wall, limiter)
        self._driver = driver
        self._runs = runs
        self._budgets = budgets
        self._agent = agent
        self._wall = wall

    async def plan(self, record: JobRecord) -> JobRecord:
        """The record of a new job, behind earlier ones of its name."""
        with _storing():
            return await self._recovery.plan(record)

    async def begin(self, entry: JobEntry, agent: AgentSpec) -> None:
        """Begins a new job, whose folder is there."""
        with _storing():
            log = await self._recovery.begin(entry.record)
        self._driver.start(entry, log, JobFold(), agent, self._budgets.granted(entry.record))

    async def open(self, entry: JobEntry) -> bool:
        """Brings a job of an earlier daemon up to date and goes on with it; False where it is no more.

        What stands in the way is told, and shown with the job.
        """
        record = entry.record
        try:
            with _storing():
                if not await self._recovery.needed(record):
                    return True
            if record.phase in LIVE_PHASES:
                _log.warning("a job was left by a daemon that died", job=entry.job)
            return await self.go_on(entry)
        except HeadraceError as error:
            _log.error("a job cannot be gone on with", job=entry.job, why=error.message)
            if record.phase in OPEN_PHASES:
                entry.stand(phase="interrupted", message=error.message, ended=record.ended or self._wall())
            if isinstance(error, JobStorageError):
                self._driver.try_later(entry)
            return True

    async def go_on(self, entry: JobEntry) -> bool:
        """Goes on with an attempt that has no end; one that has is shown. False where the job was removed.

        Raises `UnknownAgent` and `UnknownModel` too.
        """
        taken = await self._take_up(entry)
        if taken.fold.removed:
            await taken.log.release()
            return False
        if taken.fold.live:
            await self._resume(entry, taken)
        else:
            with suppress(StoreError):
                await taken.log.release()
            await entry.save()
        return True

    async def retry(self, entry: JobEntry, agent: AgentSpec, *, only_failed: bool = False) -> None:
        """Goes on with an attempt that was left, or begins another one, with `only_failed` of what failed.

        Raises `JobConflict` where `only_failed` is asked of an attempt that was left: it takes all that it has to; or
        of a debate: it goes on with its next round.
        """
        if only_failed and entry.record.request.debate is not None:
            raise JobConflict(f"job {entry.job} is a debate, which goes on behind its last round: none is run again")
        taken = await self._take_up(entry)
        if taken.fold.live and only_failed:
            raise JobConflict(f"job {entry.job} was interrupted; it goes on with everything that is not done")
        if taken.fold.live:
            await self._resume(entry, taken)
            return
        attempt = max(taken.fold.attempt, entry.record.attempt) + 1
        started = AttemptStarted(at=self._wall(), attempt=attempt, granted=True, only_failed=only_failed)
        with _storing(), trio.CancelScope(shield=True):
            await taken.log.append(started)
        taken.fold.add(started, taken.log.last)
        entry.follow(taken)
        self._driver.start(entry, taken.log, taken.fold, agent, self._budgets.granted(entry.record))

    async def complete(self, entry: JobEntry) -> None:
        """There will be no more inputs."""
        durable = entry.spool.durable
        event = InputsComplete(at=self._wall(), items=durable.lines, size=durable.size)
        with _storing(), trio.CancelScope(shield=True):
            if entry.work is not None:
                await entry.work.append(event)
                return
            async with self._log(entry, over=entry.record.phase not in OPEN_PHASES) as log:
                if log is not None:
                    await log.append(event)
                    entry.stand(events=log.last)

    async def give_up(self, entry: JobEntry, message: str) -> None:
        """Ends a job that was left, and takes away its open runs."""
        with _storing():
            cancelled = await cancel_open(self._store, self._runs, entry.record)
        event = JobEnded(
            at=self._wall(), phase="cancelled", message=message, cancelled=cancelled, gathered=entry.record.summary
        )
        with _storing(), trio.CancelScope(shield=True):
            async with self._log(entry, over=True) as log:
                if log is not None:
                    await log.append(event)
                    entry.stand(events=log.last)
        entry.stand(phase="cancelled", message=message, cancelled=cancelled, ended=event.at)
        await entry.save()

    async def removed(self, entry: JobEntry) -> None:
        """Writes into the log that the job is gone."""
        with _storing(), trio.CancelScope(shield=True):
            async with self._log(entry, over=True) as log:
                if log is not None:
                    await log.append(JobRemoved(at=self._wall(), attempt=entry.record.attempt))

    async def _take_up(self, entry: JobEntry) -> TakenUp:
        with _storing():
            taken = await self._recovery.take_up(entry.folder, entry.current(), entry.spool.durable.lines)
        for note in taken.notes:
            _log.warning(note)
        if not taken.fold.removed:
            entry.follow(taken)
        return taken

    async def _resume(self, entry: JobEntry, taken: TakenUp) -> None:
        try:
            agent = self._agent(entry.record.request.first)
            with _storing():
                budget = await self._budgets.restored(entry.record, taken.fold, entry.spool.durable.lines)
        except HeadraceError as error:
            entry.stand(phase="interrupted", message=error.message, ended=self._wall())
            await entry.save()
            raise
        self._driver.start(entry, taken.log, taken.fold, agent, budget)

    async def announce(self) -> None:
        """From here on the logs of jobs that have not ended stay in the store."""
        with _storing():
            await JobLog.announce(self._store)

    @asynccontextmanager
    async def _log(self, entry: JobEntry, *, over: bool) -> AsyncGenerator[JobLog | None, None]:
        """The log of a job that is not live, and afterwards `over`, or not; None where it has none any more."""
        try:
            log = await JobLog.take(self._store, entry.job)
        except UnknownSession:
            yield None
            return
        try:
            yield log
        finally:
            with trio.CancelScope(shield=True), suppress(StoreError):
                if over:
                    await log.release()


@contextmanager
def _storing() -> Iterator[None]:
    """What a store cannot do, in the words of jobs."""
    try:
        yield
    except (StoreError, UnknownEvent) as error:
        raise JobStorageError(error.message) from error
