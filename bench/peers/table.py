"""The peers benchmark's figures as a table for people."""

from collections.abc import Callable
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.peers.report import PeersReport, SystemResult

_ROWS: Final[tuple[tuple[str, Callable[[SystemResult], str]], ...]] = (
    ("useful tokens a second", lambda one: f"{one.goodput:,.0f}"),
    ("  of the limit", lambda one: f"{one.use:.1%}"),
    ("  times the first column's", lambda one: _number(one.goodput_ratio, ".2f")),
    ("last answer after", lambda one: f"{one.last:,.1f} s"),
    ("  times the first column's", lambda one: _number(one.last_ratio, ".2f")),
    ("requests at the provider", lambda one: f"{one.attempts:,}"),
    ("  answered 429", lambda one: f"{one.refused:,}"),
    ("  and seen by clients", lambda one: f"{one.seen:,}"),
    ("tokens wasted", lambda one: f"{one.wasted:,}"),
    ("other failures", lambda one: f"{one.errors:,}"),
    ("calls without an answer", lambda one: f"{one.unanswered:,}"),
)


def peers_tables(found: PeersReport) -> Group:
    """The systems side by side, and below how each was set."""
    limits = found.limits
    window = "" if limits.window is None else f", also over any {limits.window:g} s"
    table = Table(
        title=f"Two jobs of {found.small} and {found.large} calls under {limits.tpm:,.0f} tokens and"
        f" {limits.rpm:,.0f} requests a minute{window}"
    )
    table.add_column("")
    for one in found.systems:
        table.add_column(one.name, justify="right")
    for heading, cell in _ROWS:
        table.add_row(heading, *(cell(one) for one in found.systems))
    for place, job in enumerate(found.systems[0].jobs):
        table.add_row(
            f"the {job.name} job: half, all answered after",
            *(
                f"{_number(one.jobs[place].half, '.1f')}, {_number(one.jobs[place].ended, '.1f')} s"
                for one in found.systems
            ),
        )
    table.add_row("Jain's index when the first job ended", *(_number(one.jain, ".3f") for one in found.systems))
    notes = [Text(f"{one.name}: {one.settings}.") for one in found.systems]
    if found.floor is not None:
        notes.insert(0, Text(f"At the token limit all of it takes {found.floor:.1f} s."))
    return Group(table, *notes)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
