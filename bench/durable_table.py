"""The figures of durable runs as tables for people."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.table import Table

from bench.durable import DurableReport
from bench.durable_appends import AppendsReport
from bench.durable_path import PathResult
from bench.durable_resume import ResumeResult


def tables(report: DurableReport) -> Iterator[Table]:
    """A table for each part that was measured."""
    if report.appends is not None:
        yield _appends(report.appends)
    if report.path is not None:
        yield _path(report.path)
    if report.resume is not None:
        yield _resume(report.resume)


def _appends(report: AppendsReport) -> Table:
    table = _table(
        "Appended durably, by sessions at once, against one sync for each event",
        ("sessions", "batches", "events/s", "ratio", "appends/s", "ratio"),
        f"plain SQLite: {report.plain_per_second:,.0f} events/s, one append and one sync each; "
        f"{report.record_bytes} bytes an event; batches: of how many events, in turn",
    )
    for result in report.results:
        table.add_row(
            f"{result.appenders:,}",
            ", ".join(map(str, result.batches)),
            f"{result.events_per_second:,.0f}",
            f"{result.events_ratio:.1f}",
            f"{result.appends_per_second:,.0f}",
            f"{result.appends_ratio:.1f}",
        )
    return table


def _path(results: Sequence[PathResult]) -> Table:
    table = _table(
        "An agent's model call with all that belongs to it, in us",
        ("agents", "bare", "in memory", "on disk", "CPU of both", "ratio", "CPU ratio"),
        "ratios: on disk, with the ledger, to in memory; bare: agents without a service",
    )
    for result in results:
        table.add_row(
            f"{result.agents:,}",
            f"{result.bare.wall_us:,.0f}",
            f"{result.memory.wall_us:,.0f}",
            f"{result.durable.wall_us:,.0f}",
            f"{result.memory.cpu_us:,.0f}, {result.durable.cpu_us:,.0f}",
            f"{result.wall_ratio:.2f}",
            f"{result.cpu_ratio:.2f}",
        )
    return table


def _resume(result: ResumeResult) -> Table:
    table = _table(
        f"{result.runs:,} open runs after SIGKILL, in seconds",
        ("started", "opened", "recovered", "driven again", "all", "per 1,000", "ratio"),
        "ratio: all of it to starting the same runs",
    )
    seconds = (result.started, result.opened, result.recovered, result.driven, result.resumed)
    table.add_row(*(f"{each:.2f}" for each in seconds), f"{result.resumed_per_1000:.3f}", f"{result.ratio:.2f}")
    return table


def _table(title: str, headings: Sequence[str], caption: str) -> Table:
    table = Table(title=title, caption=caption, box=SIMPLE, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
