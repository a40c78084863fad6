"""Runs in numbers and pages: which match, the newest first, under cursors that stay good while runs come and go.

A cursor is the number of the last run of its page, and numbers are given in the order of creation and never again. So
a run that ends or is removed between two pages moves none of the others, and new ones come before the first page.

The index knows how runs ended and not where open ones stand; those are looked at one by one. There are as many of them
as the daemon has open, however many have ended.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.lifecycle import TERMINAL, State
from agents.observation import Observed, observed
from orchestrator.runs.head import view_of
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import PAGE, RunQuery, RunRow, Store
from orchestrator.views.runs import RunPage, RunView

LARGEST_PAGE: Final = 1000

_LIVE: Final[frozenset[Observed]] = frozenset({"pending", "running"})


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs are asked for; what is empty matches all. Raises `InvalidLimits`.

    Where `within` names a tenant, the runs of all others do not exist, in the counts by state either.
    """

    observed: frozenset[Observed] = frozenset()
    tenant: str = ""
    job: str = ""
    session: str = ""
    cursor: str = ""
    size: int = 100
    within: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_PAGE:
            raise InvalidLimits("size", f"a whole number from 1 to {LARGEST_PAGE}, not {self.size!r}")
        if self.cursor and not (self.cursor.isascii() and self.cursor.isdigit() and len(self.cursor) < 19):
            raise InvalidLimits("cursor", f"must be the `next` of an earlier page, not {self.cursor!r}")

    @property
    def before(self) -> int:
        return int(self.cursor) if self.cursor else 0

    @property
    def nobodys(self) -> bool:
        """Whether no run can match, since a tenant asks for another one's."""
        return bool(self.within and self.tenant and self.within != self.tenant)

    def query(self, *, states: frozenset[str] = frozenset(), open: bool | None = None) -> RunQuery:
        """The first page of it in the index: one more than there is room for, to know whether another follows."""
        return RunQuery(
            states=states,
            tenant=self.tenant or self.within,
            job=self.job,
            session=self.session,
            open=open,
            before=self.before,
            size=self.size + 1,
        )


class RunStatistics(Struct, frozen=True, kw_only=True):
    """The open runs at one moment, by state. `live` have not ended; `driven` of them are not queued."""

    states: dict[str, int]
    live: int
    driven: int
    draining: bool


class RunPages:
    """Pages over the index of a store and the open runs of this process, by id."""

    def __init__(self, store: Store, records: Mapping[str, RunRecord]) -> None:
        self._store = store
        self._records = records

    async def page(self, wanted: RunFilter) -> RunPage:
        """The runs that match."""
        states = await self.states(wanted.within)
        if wanted.nobodys:
            return RunPage(runs=(), next="", total=0, states=states)
        found, total = await self._found(wanted)
        shown = found[: wanted.size]
        more = len(found) > wanted.size
        return RunPage(
            runs=tuple(view for _, view in shown),
            next=str(shown[-1][0]) if more else "",
            total=total,
            states=states,
        )

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state; states without runs are left out."""
        ended = {state: count for state, count in (await self._store.states(tenant)).items() if state in TERMINAL}
        return ended | count_states(r for r in self._records.values() if tenant in ("", r.flow.tenant))

    async def _found(self, wanted: RunFilter) -> tuple[list[tuple[int, RunView]], int]:
        kinds = wanted.observed
        if not kinds:
            every = await self._store.runs(wanted.query())
            return [await self._seen(row) for row in every.rows], every.total
        found: list[tuple[int, RunView]] = []
        total = 0
        if kinds & _LIVE:
            found, total = await self._open(wanted)
        if kinds - _LIVE:
            states = frozenset(state.value for state in TERMINAL if observed(state) in kinds)
            ended = await self._store.runs(wanted.query(states=states, open=False))
            found += [(row.number, view_of(row)) for row in ended.rows]
            found.sort(key=_number, reverse=True)
            total += ended.total
        return found, total

    async def _open(self, wanted: RunFilter) -> tuple[list[tuple[int, RunView]], int]:
        found: list[tuple[int, RunView]] = []
        before = 0
        while True:
            query = RunQuery(
                tenant=wanted.tenant or wanted.within,
                job=wanted.job,
                session=wanted.session,
                open=True,
                before=before,
                size=PAGE,
            )
            rows = (await self._store.runs(query)).rows
            found += [(row.number, view) for row in rows if (view := self._matching(row, wanted)) is not None]
            if len(rows) < PAGE:
                break
            before = rows[-1].number
        return [one for one in found if not wanted.before or one[0] < wanted.before], len(found)

    def _matching(self, row: RunRow, wanted: RunFilter) -> RunView | None:
        record = self._records.get(row.run)
        view = None if record is None else record.view()
        return view if view is not None and view.observed in wanted.observed else None

    async def _seen(self, row: RunRow) -> tuple[int, RunView]:
        record = self._records.get(row.run)
        if record is not None:
            return row.number, record.view()
        if row.open:  # it has ended since
            row = await self._store.run(row.run) or row
        return row.number, view_of(row)


def count_states(records: Iterable[RunRecord]) -> dict[str, int]:
    """How many runs are in each state; states without runs are left out."""
    states: Counter[State] = Counter(record.state for record in records)
    return {state.value: count for state, count in states.items()}


def _number(found: tuple[int, RunView]) -> int:
    return found[0]
