"""A job's way from its start to its end, or to where its daemon leaves it, in a task of its own."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
import structlog
import trio

from agents.spec import AgentSpec
from orchestrator.jobs.budget import Grant
from orchestrator.jobs.ending import Ending, may_go_on
from orchestrator.jobs.entry import JobEntry
from orchestrator.jobs.errors import JobStorageError
from orchestrator.jobs.events import JobEnded
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.log import JobLog
from orchestrator.jobs.open_runs import cancel_open
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.stages import Stages
from orchestrator.jobs.work import JobWork
from orchestrator.store.base import Store
from orchestrator.store.errors import StoreError

SHUTTING_DOWN: Final = "the daemon is shutting down"

SetWeight = Callable[[str, str, float], None]
"""Told of a tenant, its job and the job's weight when the job begins, and of weight 1 when it has ended."""

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before a job whose log could not be written is gone on with: doubled each time it gets no further."""

_log = structlog.get_logger("headrace.jobs")


class JobDriver:
    """Works at jobs in `nursery`. What goes wrong with one ends that one, and not the daemon.

    `go_on` is called some time after a job had to be left.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        runs: RunsToEnd,
        store: Store,
        on_weight: SetWeight,
        attempts: int,
        wall: Callable[[], float],
        limiter: trio.CapacityLimiter,
        go_on: Callable[[JobEntry], Awaitable[None]],
    ) -> None:
        self._nursery = nursery
        self._runs = runs
        self._store = store
        self._on_weight = on_weight
        self._attempts = attempts
        self._wall = wall
        self._limiter = limiter
        self._go_on = go_on

    def start(self, entry: JobEntry, log: JobLog, fold: JobFold, agent: AgentSpec, grant: Grant) -> None:
        """Begins the attempt that the job's record names, or goes on with it, behind what `fold` knows."""
        record = entry.record
        work = JobWork(
            record,
            entry.folder,
            log=log,
            spool=entry.spool,
            results=entry.results,
            table=fold.table,
            runs=self._runs,
            store=self._store,
            agent=agent,
            budget=grant.items,
            fuse=Fuse(record.workers, self._attempts),
            limiter=self._limiter,
            wall=self._wall,
        )
        if fold.ending is not None:
            work.take_over(fold.ending)
        stages = Stages(
            record,
            work,
            entry.spool,
            entry.results,
            runs=self._runs,
            grant=grant,
            limiter=self._limiter,
            wall=self._wall,
        )
        entry.begin(work)
        view = entry.view()
        _log.info("job begins", job=view.job, tenant=view.tenant, agent=view.agent, model=view.model, done=view.done)
        self._weigh(entry, record.request.weight)
        self._nursery.start_soon(self._drive, entry, work, stages, name=f"job {record.job}")

    def try_later(self, entry: JobEntry) -> None:
        """Goes on with a job some time later."""
        self._nursery.start_soon(self._later, entry, False)

    async def _drive(self, entry: JobEntry, work: JobWork, stages: Stages) -> None:
        ending = Ending("interrupted", SHUTTING_DOWN)
        try:
            ending = await stages.run()
        except JobStorageError as error:
            ending = Ending("failed", error.message)
        except Exception as error:
            _log.exception("a job broke off", job=entry.job)
            ending = Ending("failed", f"something went wrong inside: {type(error).__name__}: {error}", work.begun)
        finally:
            with trio.CancelScope(shield=True):
                ending = await self._end(entry, work, ending)
        if ending.again:
            await self._later(entry, work.finished > 0)

    async def _end(self, entry: JobEntry, work: JobWork, ending: Ending) -> Ending:
        async with entry.control:
            ending = await self._close(entry, work, ending)
            record = entry.closing_record(ending, self._wall(), work.log.last)

            def keep() -> None:
                entry.folder.sync_results()
                entry.folder.save(record)

            try:
                await trio.to_thread.run_sync(keep, limiter=self._limiter)
            except JobStorageError as error:
                _log.error("a job's end could not be kept in its folder", job=entry.job, problem=error.message)
            self._weigh(entry, 1.0)
            entry.end(record)
            view = entry.view()
            _log.info(
                "job left" if ending.phase == "interrupted" else "job ended",
                job=view.job,
                tenant=view.tenant,
                phase=view.phase,
                done=view.done,
                failed=view.failed,
                cancelled=view.cancelled,
                micro_dollars=view.micro_dollars,
            )
        return ending

    async def _close(self, entry: JobEntry, work: JobWork, ending: Ending) -> Ending:
        """Writes the end into the log, where it is one; what it is where the log takes nothing."""
        if ending.phase != "interrupted":
            try:
                more = await cancel_open(self._store, self._runs, entry.record, work.left)
                ending = msgspec.structs.replace(ending, cancelled=ending.cancelled + more)
                await work.log.append(
                    JobEnded(
                        at=self._wall(),
                        phase=ending.phase,
                        message=ending.message,
                        cancelled=ending.cancelled,
                        gathered=work.table.summary(),
                    )
                )
            except StoreError as error:
                ending = Ending("interrupted", error.message, ending.cancelled, again=may_go_on(error))
        if ending.again:
            _log.warning("a job is left, and gone on with later", job=entry.job, why=ending.message)
        if ending.phase != "interrupted":
            with suppress(StoreError):
                await work.log.release()
        return ending

    async def _later(self, entry: JobEntry, progress: bool) -> None:
        entry.pause = FIRST_PAUSE if progress else min(2 * entry.pause or FIRST_PAUSE, LONGEST_PAUSE)
        await trio.sleep(entry.pause)
        await self._go_on(entry)

    def _weigh(self, entry: JobEntry, weight: float) -> None:
        if entry.record.request.weight != 1.0:
            self._on_weight(entry.record.request.tenant, entry.job, weight)
