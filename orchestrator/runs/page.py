"""Runs in numbers and pages: which match, the newest first, under cursors that stay good while runs come and go.

A cursor is the number of the last run of its page, and numbers are given in the order of creation and never again. So
a run that ends or is forgotten between two pages moves none of the others, and new ones come before the first page.
"""

import math
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.lifecycle import State
from agents.observation import Observed, observed
from orchestrator.runs.record import RunRecord
from orchestrator.views.runs import RunPage

LARGEST_PAGE = 1000


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs are asked for; what is empty matches all. Raises `InvalidLimits`.

    Where `within` names a tenant, the runs of all others do not exist, in the counts by state either.
    """

    observed: frozenset[Observed] = frozenset()
    tenant: str = ""
    job: str = ""
    cursor: str = ""
    size: int = 100
    within: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LARGEST_PAGE:
            raise InvalidLimits("size", f"a whole number from 1 to {LARGEST_PAGE}, not {self.size!r}")
        if self.cursor and not (self.cursor.isascii() and self.cursor.isdigit() and len(self.cursor) < 20):
            raise InvalidLimits("cursor", f"must be the `next` of an earlier page, not {self.cursor!r}")

    def states(self) -> frozenset[State]:
        return frozenset(state for state in State if not self.observed or observed(state) in self.observed)


class RunStatistics(Struct, frozen=True, kw_only=True):
    """All runs at one moment, by state. `live` have not ended; `driven` of them are not queued."""

    states: dict[str, int]
    live: int
    driven: int
    draining: bool


def page(newest_first: Iterable[RunRecord], wanted: RunFilter) -> RunPage:
    """One pass over all runs: it counts those that match, and makes views of no more than the page holds."""
    before = int(wanted.cursor) if wanted.cursor else math.inf
    matching, tenant, job = wanted.states(), wanted.tenant, wanted.job
    states: Counter[State] = Counter()
    chosen: list[RunRecord] = []
    total, more = 0, False
    for record in newest_first:
        state, flow = record.state, record.flow
        if wanted.within and flow.tenant != wanted.within:
            continue
        states[state] += 1
        if state not in matching or (tenant and flow.tenant != tenant) or (job and flow.job != job):
            continue
        total += 1
        if record.number >= before:
            continue
        if len(chosen) < wanted.size:
            chosen.append(record)
        else:
            more = True
    return RunPage(
        runs=tuple(record.view() for record in chosen),
        next=str(chosen[-1].number) if more else "",
        total=total,
        states=_by_name(states),
    )


def count_states(records: Iterable[RunRecord]) -> dict[str, int]:
    """How many runs are in each state; states without runs are left out."""
    return _by_name(Counter(record.state for record in records))


def _by_name(states: Counter[State]) -> dict[str, int]:
    return {state.value: count for state, count in states.items()}
