"""What a job may spend: one scope that all its runs share, below its tenant's.

Where a synthesis follows, the items and their planner are in a scope of their own below it, which lacks its share.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
import trio

from agents.amounts import Limits
from agents.budget import Scope
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.job import WINDOW
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import PLAN, REPAIR, SYNTHESIS, JobRecord

BUDGET_SCOPE: Final = "job"
"""How a job's budget is called in results."""


ITEMS_SCOPE: Final = "items"
"""How the part of a job's budget is called that is not kept for its synthesis."""


class Grant(NamedTuple):
    """The scopes of an attempt: of the whole job, and of everything but its synthesis."""

    whole: Scope
    items: Scope


class JobBudgets:
    """Makes the scopes of jobs. `parent` gives the one above a tenant's jobs, `wall` seconds since the epoch."""

    def __init__(self, runs: RunsToEnd, parent: Callable[[str], Scope | None], wall: Callable[[], float]) -> None:
        self._runs = runs
        self._parent = parent
        self._wall = wall

    def granted(self, record: JobRecord) -> Grant:
        """The scopes of an attempt that begins, of which nothing is spent."""
        request = record.request
        whole = Scope(BUDGET_SCOPE, request.budget, self._parent(request.tenant))
        if request.synthesis is None:
            return Grant(whole, whole)
        return Grant(whole, whole.child(ITEMS_SCOPE, lessened(request.budget, request.synthesis.share)))

    async def restored(self, record: JobRecord, fold: JobFold, items: int) -> Grant:
        """The scopes of an attempt that goes on, of `items` inputs: with what items that finished have spent of the
        present grant, and the runs that were begun and are no finished items yet.

        A timeout counts from the grant, so it includes the time in which no daemon was there. Raises `StoreError`.
        """
        grant, summary = self.granted(record), fold.table.summary()
        scope = grant.items
        scope.used, scope.unknown = summary.spent, summary.unknown
        scope.start(trio.current_time() - max(0.0, self._wall() - record.granted_at))
        runs = [record.run(ordinal) for ordinal in _begun(record, fold, items)]
        if record.request.planner is not None:
            runs += map(record.beside, (PLAN, REPAIR))
        await self._runs.charge(scope, runs, tenant=record.request.tenant, job=record.job)
        if grant.whole is not scope:
            grant.whole.used, grant.whole.unknown = scope.used, scope.unknown
            await self._runs.charge(
                grant.whole, [record.beside(SYNTHESIS)], tenant=record.request.tenant, job=record.job
            )
        return grant


def _begun(record: JobRecord, fold: JobFold, items: int) -> Iterable[int]:
    table = fold.table
    if record.request.debate is not None:  # a round has a line as soon as there is another
        return [table.done + table.failed + 1]
    return table.begun(items, WINDOW * record.workers if record.request.ordered else record.workers)


def lessened(limits: Limits, share: float) -> Limits:
    """These limits without a share of each."""
    rest, less = 1 - share, dict[str, float]()
    for field, least in (("rounds", 1), ("tool_calls", 0), ("tokens", 1), ("micro_dollars", 0)):
        allowed = getattr(limits, field)
        if allowed is not None:
            less[field] = max(least, math.floor(allowed * rest))
    return msgspec.structs.replace(limits, timeout=limits.timeout and limits.timeout * rest, **less)
