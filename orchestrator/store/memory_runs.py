"""The index of runs of the store in memory."""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from orchestrator.store.base import Batch, RunQuery, RunRow, RunRows
from orchestrator.store.rules import created_by, duplicate_run, must_be_of


class MemoryRuns:
    """Rows by the name of their run, in the order of creation."""

    __slots__ = ("_number", "_rows", "_sessions")

    def __init__(self) -> None:
        self._rows: dict[str, RunRow] = {}
        self._sessions: dict[str, list[str]] = {}
        self._number = 0

    def check(self, batch: Batch) -> None:
        """Raises `DuplicateSession` where the batch creates a run that exists; changes nothing."""
        must_be_of(batch)
        for row in created_by(batch):
            if row.run in self._rows:
                raise duplicate_run(row.run)

    def put(self, rows: Iterable[RunRow]) -> None:
        """Writes rows. A run's number, and whose it is, never change."""
        for row in rows:
            before = self._rows.get(row.run)
            if before is None:
                self._number += 1
                self._rows[row.run] = replace(row, number=self._number)
                self._sessions.setdefault(row.session, []).append(row.run)
            else:
                self._rows[row.run] = replace(before, state=row.state, open=row.open, head=row.head)

    def get(self, run: str) -> RunRow | None:
        """One row."""
        return self._rows.get(run)

    def page(self, query: RunQuery) -> RunRows:
        """The rows that match, the newest first."""
        found = [row for row in self._rows.values() if _matches(row, query)]
        page = (row for row in reversed(found) if not query.before or row.number < query.before)
        return RunRows(tuple(row for row, _ in zip(page, range(query.size), strict=False)), len(found))

    def states(self, tenant: str) -> dict[str, int]:
        """How many there are in each state."""
        return dict(Counter(row.state for row in self._rows.values() if tenant in ("", row.tenant)))

    def sessions_with_open(self) -> set[str]:
        """The sessions of which a run is open."""
        return {row.session for row in self._rows.values() if row.open}

    def forget(self, sessions: Iterable[str]) -> int:
        """Removes the rows of these sessions; how many."""
        gone = [run for session in sessions for run in self._sessions.pop(session, ())]
        for run in gone:
            del self._rows[run]
        return len(gone)


def _matches(row: RunRow, query: RunQuery) -> bool:
    return (
        (not query.states or row.state in query.states)
        and query.tenant in ("", row.tenant)
        and query.job in ("", row.job)
        and query.session in ("", row.session)
        and query.open in (None, row.open)
    )
