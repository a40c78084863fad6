"""Runs whose creation was not answered in time: nobody knows whether they exist, until the store is asked again.

Whoever asked for such a run is told that it was lost. Where it turns out to exist it is driven like any other, and the
same id asked for again finds it.
"""

from typing import Final

import trio

from agents.log import JournalLost
from orchestrator.runs.live_runs import LiveRuns
from orchestrator.runs.means import Means
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.record import RunRecord
from orchestrator.runs.recovery import recorded
from orchestrator.store.errors import StoreAway, StoreError

FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0


def in_doubt(lost: JournalLost) -> bool:
    """Whether the store may have kept what it gave no answer to."""
    return isinstance(lost.__cause__, TimeoutError | StoreAway)


class Doubts:
    """Asks about runs in tasks in `nursery`, one for each."""

    def __init__(self, nursery: trio.Nursery, means: Means, books: OpenRuns, live: LiveRuns) -> None:
        self._nursery = nursery
        self._means = means
        self._books = books
        self._live = live
        self._asked: set[str] = set()

    def ask(self, run: str) -> None:
        """Finds out about a run, and drives it if there is one."""
        if run not in self._asked and not self._live.closed and self._means.store.durable:
            self._asked.add(run)
            self._nursery.start_soon(self._until_known, run)

    async def find(self, run: str) -> RunRecord | None:
        """An open run of the store as one that is known here; None where there is none. Raises `StoreError`."""
        row = await self._means.store.run(run)
        if run in self._books.records:
            return self._books.records[run]
        if row is None or not row.open or row.session in self._books.busy:
            return None
        return self._books.found(recorded(row))

    async def _until_known(self, run: str) -> None:
        wait, store = FIRST_WAIT, self._means.store
        while not self._live.closed:
            await trio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
            try:
                # a store writes in the order in which it is asked to: what is in doubt is decided before this is
                await store.beat(self._means.executor.holder)
                record = await self.find(run)
            except StoreError:
                continue
            if record is None and self._books.starting(run):  # somebody asks for it again at this moment
                continue
            if record is not None and not record.driven and record.owner is None:
                self._live.alone(record)
            break
        self._asked.discard(run)
