"""The gateway benchmark's figures as tables for people."""

from collections.abc import Sequence

from rich.table import Table

from bench.gateway import DIRECT, Cell
from bench.paced import LATE_MS, RATE

_NAMES = {"json": "short JSON", "stream": "stream of 100 chunks"}


def requests_table(cells: Sequence[Cell]) -> Table:
    """A row for each cell, with what a target adds to the latency of going to the stub directly."""
    direct = {(cell.case, cell.connections): cell for cell in cells if cell.target == DIRECT}
    table = Table(title="Requests through a gateway, and to the stub directly")
    for heading in ("case", "connections", "target"):
        table.add_column(heading, justify="right" if heading == "connections" else "left")
    for heading in ("requests/s", "p50 ms", "p99 ms", "added p50", "added p99", "failed"):
        table.add_column(heading, justify="right")
    for cell in cells:
        base = direct[cell.case, cell.connections]
        plain = cell.target == DIRECT
        table.add_row(
            _NAMES[cell.case],
            str(cell.connections),
            cell.target,
            f"{cell.requests_per_second:,.0f}",
            _shown(cell.p50_ms),
            _shown(cell.p99_ms),
            "" if plain else _added(cell.p50_ms, base.p50_ms),
            "" if plain else _added(cell.p99_ms, base.p99_ms),
            f"{cell.failed:,}" if cell.failed else "",
            end_section=cell.target == cells[-1].target,
        )
    return table


def streams_table(cells: Sequence[Cell], most: int) -> Table:
    """How many paced streams each target carried."""
    table = Table(
        title=f"Streams of {RATE:.0f} chunks/s with 99 % of the chunks less than {LATE_MS:.0f} ms on their way"
    )
    for heading in ("target", "streams", "chunks/s", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    for cell in cells:
        more = "at least " if cell.connections == most else ""
        chunks = f"{cell.connections * RATE:,.0f}"
        table.add_row(cell.target, f"{more}{cell.connections:,}", chunks, _shown(cell.p50_ms), _shown(cell.p99_ms))
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _added(value: float | None, base: float | None) -> str:
    return "-" if value is None or base is None else f"{value - base:+,.2f}"
