"""What a job may spend: one scope that all its runs share, below its tenant's."""

from collections.abc import Callable
from typing import Final

import trio

from agents.budget import Scope
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.job import WINDOW
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import JobRecord

BUDGET_SCOPE: Final = "job"
"""How a job's budget is called in results."""


class JobBudgets:
    """Makes the scopes of jobs. `parent` gives the one above a tenant's jobs, `wall` seconds since the epoch."""

    def __init__(self, runs: RunsToEnd, parent: Callable[[str], Scope | None], wall: Callable[[], float]) -> None:
        self._runs = runs
        self._parent = parent
        self._wall = wall

    def granted(self, record: JobRecord) -> Scope:
        """The scope of an attempt that begins, of which nothing is spent."""
        return Scope(BUDGET_SCOPE, record.request.budget, self._parent(record.request.tenant))

    async def restored(self, record: JobRecord, fold: JobFold, items: int) -> Scope:
        """The scope of an attempt that goes on, of `items` inputs: with what items that finished have spent of the
        present grant, and the runs that were begun and are no finished items yet.

        A timeout counts from the grant, so it includes the time in which no daemon was there. Raises `StoreError`.
        """
        scope, summary = self.granted(record), fold.table.summary()
        scope.used, scope.unknown = summary.spent, summary.unknown
        scope.start(trio.current_time() - max(0.0, self._wall() - record.granted_at))
        begun = fold.table.begun(items, WINDOW * record.workers if record.request.ordered else record.workers)
        runs = (record.run(ordinal) for ordinal in begun)
        await self._runs.charge(scope, runs, tenant=record.request.tenant, job=record.job)
        return scope
