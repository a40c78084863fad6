"""A job's way from its start to its end on disk, in a task of its own."""

from collections.abc import Callable
from typing import Final

import structlog
import trio

from agents.budget import Scope
from agents.spec import AgentSpec
from orchestrator.jobs.entry import JobEntry, budget_of
from orchestrator.jobs.errors import JobStorageError
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.work import Ending, JobWork, RunsToEnd

SHUTTING_DOWN: Final = "the daemon is shutting down"

SetWeight = Callable[[str, str, float], None]
"""Told of a tenant, its job and the job's weight when the job begins, and of weight 1 when it has ended."""

_log = structlog.get_logger("headrace.jobs")


class JobDriver:
    """Works at jobs in `nursery`. What goes wrong with one ends that one, and not the daemon."""

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        runs: RunsToEnd,
        on_weight: SetWeight,
        attempts: int,
        wall: Callable[[], float],
        limiter: trio.CapacityLimiter,
        parent: Callable[[str], Scope | None],
    ) -> None:
        self._nursery = nursery
        self._parent = parent
        self._runs = runs
        self._on_weight = on_weight
        self._attempts = attempts
        self._wall = wall
        self._limiter = limiter

    def start(self, entry: JobEntry, table: ResultTable, agent: AgentSpec) -> None:
        """Begins the attempt that the job's record names, behind the results in `table`."""
        record = entry.record
        work = JobWork(
            record,
            entry.folder,
            spool=entry.spool,
            results=entry.results,
            table=table,
            runs=self._runs,
            agent=agent,
            budget=budget_of(record, table.summary(), self._wall(), self._parent(record.request.tenant)),
            fuse=Fuse(record.workers, self._attempts),
            limiter=self._limiter,
        )
        entry.begin(work)
        self._weigh(entry, record.request.weight)
        self._nursery.start_soon(self._drive, entry, work, name=f"job {record.job}")

    async def _drive(self, entry: JobEntry, work: JobWork) -> None:
        ending = Ending("interrupted", SHUTTING_DOWN)
        try:
            ending = await work.run()
        except JobStorageError as error:
            ending = Ending("failed", error.message)
        except Exception as error:
            _log.exception("a job broke off", job=entry.job)
            ending = Ending("failed", f"something went wrong inside: {type(error).__name__}: {error}", work.begun)
        finally:
            with trio.CancelScope(shield=True):
                await self._end(entry, ending)

    async def _end(self, entry: JobEntry, ending: Ending) -> None:
        async with entry.control:
            record = entry.closing_record(ending, self._wall())

            def keep() -> None:
                entry.folder.sync_results()
                entry.folder.save(record)

            try:
                await trio.to_thread.run_sync(keep, limiter=self._limiter)
            except JobStorageError as error:
                _log.error("a job's end could not be kept", job=entry.job, problem=error.message)
            self._weigh(entry, 1.0)
            entry.end(record)

    def _weigh(self, entry: JobEntry, weight: float) -> None:
        if entry.record.request.weight != 1.0:
            self._on_weight(entry.record.request.tenant, entry.job, weight)
