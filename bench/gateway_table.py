"""The gateway benchmark's figures as tables for people."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from rich.box import SIMPLE
from rich.table import Table

from bench.gateway import DIRECT, Cell
from bench.paced import LATE_MS, RATE

_NAMES = {"json": "JSON", "stream": "stream"}


def requests_table(cells: Sequence[Cell]) -> Table:
    """A row for each cell, with what a target adds to the latency of going to the stub directly. Fits 80 columns."""
    direct = {(cell.case, cell.connections): cell for cell in cells if cell.target == DIRECT}
    table = Table(
        title="Short JSON and streams of 100 chunks through a gateway",
        caption="p50, p99: latency in ms; +p50, +p99: how much more than directly",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading, justify in (("case", "left"), ("conns", "right"), ("target", "left")):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for heading in ("req/s", "p50", "p99", "+p50", "+p99", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in cells:
        base = direct[cell.case, cell.connections]
        plain = cell.target == DIRECT
        table.add_row(
            _NAMES[cell.case],
            str(cell.connections),
            _short(cell.target),
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
    title = f"Streams of {RATE:.0f} chunks/s, 99 % of the chunks less than {LATE_MS:.0f} ms late"
    table = Table(title=title, box=SIMPLE)
    for heading in ("target", "streams", "chunks/s", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    for cell in cells:
        more = "at least " if cell.connections == most else ""
        chunks = f"{cell.connections * RATE:,.0f}"
        table.add_row(
            _short(cell.target), f"{more}{cell.connections:,}", chunks, _shown(cell.p50_ms), _shown(cell.p99_ms)
        )
    return table


def _short(target: str) -> str:
    """A target as a table has room for it."""
    return urlsplit(target).netloc or target


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _added(value: float | None, base: float | None) -> str:
    return "-" if value is None or base is None else _shown(max(0.0, value - base))
