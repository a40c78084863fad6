"""What runs have used so far, and may have used besides, counted into a budget above them that was made anew.

Runs that are open here are known; of others the index is asked, and the log of those that it knows is read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import trio

from agents.amounts import Amounts
from agents.budget import Scope
from agents.errors import HeadraceError
from agents.port import Flow
from agents.snapshot import RunSnapshot
from orchestrator.runs.reading import read_run
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import RunRow, Store
from orchestrator.store.errors import StoreError

READ_AT_ONCE: Final = 32


def held(run: RunSnapshot) -> Amounts:
    """What stays reserved because nobody said what was used, a model call without an end included."""
    request = run.open_request
    if request is None:
        return run.unknown
    return run.unknown + Amounts(tokens=request.reserved_tokens, micro_dollars=request.reserved_micro_dollars)


class Charging:
    """Counts into `budget`, and not into those above it, what runs of one job have used."""

    def __init__(self, store: Store, records: Mapping[str, RunRecord], budget: Scope, tenant: str, job: str) -> None:
        self._store = store
        self._records = records
        self._budget = budget
        self._whose = tenant, job
        self._failure: StoreError | None = None

    async def charge(self, runs: Iterable[str]) -> None:
        """Those that nobody knows, and those of others, have used nothing of it. Raises `StoreError`."""
        asked = iter(runs)
        async with trio.open_nursery() as nursery:
            for _ in range(READ_AT_ONCE):
                nursery.start_soon(self._some, asked)
        if self._failure is not None:
            raise self._failure

    async def _some(self, runs: Iterator[str]) -> None:
        for run in runs:
            if self._failure is not None:
                return
            if self._known(self._records.get(run)):
                continue
            try:
                row = await self._store.run(run)
                if row is not None and self._mine(Flow(row.tenant, row.job, row.run)):
                    await self._read(row)
            except StoreError as error:
                self._failure = error

    def _known(self, record: RunRecord | None) -> bool:
        if record is None or not self._mine(record.flow):
            return record is not None
        if record.live is not None:
            scope = record.live.scope
            self._add(scope.used, scope.unknown + scope.reserved)
        elif record.parked is not None:
            self._add(record.parked.used, held(record.parked))
        return record.live is not None or record.parked is not None

    async def _read(self, row: RunRow) -> None:
        try:
            run = (await read_run(self._store, row)).snapshot
        except StoreError:
            raise
        except HeadraceError:  # nobody can go on with it either, or answer for it
            return
        self._add(run.used, held(run))

    def _add(self, used: Amounts, unknown: Amounts) -> None:
        self._budget.used += used
        self._budget.unknown += unknown

    def _mine(self, flow: Flow) -> bool:
        return (flow.tenant, flow.job) == self._whose
