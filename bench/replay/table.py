"""A replay's figures as tables for people."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Group
from rich.table import Table

from bench.replay.report import PolicyReport, Waits

TENANTS_SHOWN: Final = 8

_ROWS: Final[tuple[tuple[str, Callable[[PolicyReport], str]], ...]] = (
    ("calls answered", lambda one: f"{one.ok:,}"),
    ("answered within their deadline", lambda one: f"{one.in_time:,}"),
    ("tokens a second of those", lambda one: f"{one.goodput:,.0f}"),
    ("last answer after", lambda one: f"{one.ended:,.0f} s"),
    ("calls sent", lambda one: f"{one.attempts:,}"),
    ("429s caused", lambda one: f"{one.refused_429:,}"),
    ("minutes with calls waiting throughout", lambda one: f"{one.minutes_backlogged:,}"),
    ("  the tightest limit's use then", lambda one: _number(one.tightest, ".1%")),
    ("Jain's index of tenants' minutes, mean", lambda one: _number(one.jain_mean, ".3f")),
    ("  and worst", lambda one: _number(one.jain_worst, ".3f")),
    ("tenants' worst spread in a minute", lambda one: _number(one.spread, ",.0f")),
    ("worst spread in the owner's books", lambda one: _number(one.booked_spread, ",.0f")),
    ("  of its bound", lambda one: _number(one.bound, ",.0f")),
)


def replay_tables(reports: Sequence[PolicyReport]) -> Group:
    """One trace's reports side by side. Of many tenants only the largest are shown; the JSON has them all."""
    count = len(reports[0].tenants)
    title = "by tenant" + (f" (the largest {TENANTS_SHOWN} of {count})" if count > TENANTS_SHOWN else "")
    return Group(
        _overview(reports),
        _waits("by priority", reports, [one.priorities for one in reports]),
        _waits(title, reports, [one.tenants[:TENANTS_SHOWN] for one in reports]),
    )


def _overview(reports: Sequence[PolicyReport]) -> Table:
    table = Table(title=f"{reports[0].trace}: {reports[0].calls:,} calls")
    table.add_column("")
    for one in reports:
        table.add_column(one.policy, justify="right")
    for heading, cell in _ROWS:
        table.add_row(heading, *(cell(one) for one in reports))
    for place, use in enumerate(reports[0].use):
        cells = [
            f"{_number(one.use[place].backlogged, '.1%')} ({one.use[place].while_arriving:.1%})" for one in reports
        ]
        table.add_row(f"use of {use.limit}, then (and while calls came)", *cells)
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _waits(title: str, reports: Sequence[PolicyReport], waits: Sequence[Sequence[Waits]]) -> Table:
    table = Table(title=f"Seconds in queue of answered calls {title}: p50 / p90 / p99")
    table.add_column("")
    for one in reports:
        table.add_column(one.policy, justify="right")
    by_name = [{group.name: group for group in groups} for groups in waits]
    for group in waits[0]:
        cells = []
        for groups in by_name:
            own = groups.get(group.name)
            cells.append("-" if own is None else f"{own.p50:,.1f} / {own.p90:,.1f} / {own.p99:,.1f}")
        table.add_row(f"{group.name}, {group.calls:,} calls", *cells)
    return table
