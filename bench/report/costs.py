"""Sections of what Headrace costs: `load`, `gateway`, `durable`, `pool`."""

from collections.abc import Sequence
from typing import Final

from bench.durable import DurableReport
from bench.gateway import DIRECT, Cell
from bench.load import LoadReport
from bench.pool import PoolResult
from bench.report.parts import Picture, Section, Table, at_most, figure
from bench.report.svg import Bar, Group, bars

RATIO: Final = 2.0
"""Of the owner path to the bare round trip, at 10,000 agents of 100 tenants."""

GROWTH: Final = 1.5
"""Of that ratio, from 100 agents of 10 tenants to 10,000 of 1,000."""


def load(report: LoadReport) -> Section:
    """Each size's ratio, and its growth where the sizes are those that it is promised for."""
    sizes = [(one.agents, one.tenants) for one in report.results]
    targets = [
        at_most("ratio at 10,000 agents, 100 tenants", one.ratio, RATIO)
        for one in report.results
        if (one.agents, one.tenants) == (10_000, 100)
    ]
    if sizes and (sizes[0], sizes[-1]) == ((100, 10), (10_000, 1_000)):
        targets.append(at_most("growth of the ratio to 10,000 agents, 1,000 tenants", report.growth, GROWTH))
    groups = [
        Group(f"{one.agents:,} agents, {one.tenants:,} tenants", [Bar("ratio", one.ratio, RATIO)])
        for one in report.results
    ]
    rows = [
        [
            f"{one.agents:,}",
            f"{one.tenants:,}",
            f"{one.calls_per_second:,.0f}",
            f"{one.bare_per_second:,.0f}",
            f"{one.ratio:.2f}",
            f"{one.bytes_per_agent:,}",
        ]
        for one in report.results
    ]
    return Section(
        targets=targets,
        pictures=[
            Picture(
                title="The owner path, in bare round trips",
                svg=bars(groups, form=".2f"),
                caption=f"The line is {RATIO:g}, which is asked of 10,000 agents of 100 tenants.",
            )
        ],
        tables=[
            Table(
                title="The owner path against a bare memory-channel round trip",
                headings=("agents", "tenants", "calls/s", "bare/s", "ratio", "bytes per agent"),
                rows=rows,
                caption="Rates are per second of CPU time.",
                words=0,
            )
        ],
    )


def gateway(cells: Sequence[Cell]) -> Section:
    """Requests a second and latency of each target, and what part of the direct rate they are."""
    direct = {(one.case, one.connections): one.requests_per_second for one in cells if one.target == DIRECT}
    keys = list(dict.fromkeys((one.case, one.connections) for one in cells))
    groups = [
        Group(
            f"{case}, connections: {connections:,}",
            [
                Bar(one.target, one.requests_per_second)
                for one in cells
                if (one.case, one.connections) == (case, connections)
            ],
        )
        for case, connections in keys
    ]
    rows = []
    for one in cells:
        base = direct.get((one.case, one.connections))
        rows.append(
            [
                one.case,
                one.target,
                f"{one.connections:,}",
                f"{one.requests_per_second:,.0f}",
                figure(one.requests_per_second / base if base else None, ".3f"),
                figure(one.p50_ms),
                figure(one.p99_ms),
                f"{one.failed:,}",
            ]
        )
    return Section(
        pictures=[Picture(title="Requests a second", svg=bars(groups))],
        tables=[
            Table(
                title="Through the daemon, and directly to its upstream",
                headings=("request", "target", "connections", "requests/s", "of direct", "p50 ms", "p99 ms", "failed"),
                rows=rows,
                words=2,
            )
        ],
    )


def durable(report: DurableReport) -> Section:
    """Each part that was measured."""
    pictures, tables = [], []
    notes = [f"The file system is {report.disk.file_system}; a sync there costs {report.disk.sync_us:,.0f} us."]
    if report.appends is not None:
        found = report.appends.results
        groups = [
            Group(
                f"sessions: {one.appenders:,}, batches of {_batches(one.batches)}",
                [Bar("ratio", one.events_ratio, 1.0)],
            )
            for one in found
        ]
        pictures.append(
            Picture(
                title="Durable events a second, in those of one sync each",
                svg=bars(groups, form=",.1f", log=True),
                caption="Lengths are logarithms; the line is 1.",
            )
        )
        tables.append(
            Table(
                title="Appended durably, against one sync for each event",
                headings=("batches", "sessions", "events/s", "ratio", "appends/s", "ratio"),
                rows=[
                    [
                        _batches(one.batches),
                        f"{one.appenders:,}",
                        f"{one.events_per_second:,.0f}",
                        f"{one.events_ratio:.1f}",
                        f"{one.appends_per_second:,.0f}",
                        f"{one.appends_ratio:.1f}",
                    ]
                    for one in found
                ],
                caption=f"Plain SQLite: {report.appends.plain_per_second:,.0f} events a second.",
            )
        )
    if report.path is not None:
        tables.append(
            Table(
                title="An agent's model call with all that belongs to it, in us",
                headings=("agents", "bare", "in memory", "on disk", "ratio", "CPU ratio"),
                rows=[
                    [
                        f"{one.agents:,}",
                        f"{one.bare.wall_us:,.0f}",
                        f"{one.memory.wall_us:,.0f}",
                        f"{one.durable.wall_us:,.0f}",
                        f"{one.wall_ratio:.2f}",
                        f"{one.cpu_ratio:.2f}",
                    ]
                    for one in report.path
                ],
                caption="Ratios: on disk to in memory.",
                words=0,
            )
        )
    if report.resume is not None:
        one = report.resume
        seconds = (one.started, one.opened, one.recovered, one.driven, one.resumed)
        tables.append(
            Table(
                title=f"{one.runs:,} open runs after SIGKILL, in seconds",
                headings=("started", "opened", "recovered", "driven again", "all", "per 1,000", "ratio"),
                rows=[[*(f"{each:.2f}" for each in seconds), f"{one.resumed_per_1000:.3f}", f"{one.ratio:.2f}"]],
                caption="Ratio: resuming all to starting the same runs.",
                words=0,
            )
        )
    return Section(pictures=pictures, tables=tables, notes=notes)


def _batches(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


def pool(results: Sequence[PoolResult]) -> Section:
    """Runs a second by who drives them."""
    groups = [Group(one.pool, [Bar("runs a second", one.runs_per_second)]) for one in results]
    return Section(
        pictures=[Picture(title="Runs a second, by who drives them", svg=bars(groups))],
        tables=[
            Table(
                title=f"{results[0].runs:,} runs of {results[0].calls} model calls" if results else "Runs",
                headings=("pool", "runs/s", "ratio", "+ms a run", "alone, ms", "+ms alone"),
                rows=[
                    [
                        one.pool,
                        f"{one.runs_per_second:,.0f}",
                        f"{one.ratio:.2f}",
                        f"{one.overhead_ms:.2f}",
                        f"{one.alone_ms:.1f}",
                        f"{one.added_ms:.1f}",
                    ]
                    for one in results
                ],
                caption="Against the first row.",
            )
        ],
    )
