"""The pool benchmark's figures as a table for people."""

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from bench.pool import PoolResult
from bench.pool_daemon import WORKERS


def pool_table(results: Sequence[PoolResult]) -> Table:
    """A row for each pool, with what it costs against the first. Fits 80 columns."""
    first = results[0]
    table = Table(
        title=f"{first.runs:,} runs of {first.calls} model calls, by who drives them",
        caption=f"+ms: more than {first.pool}; alone: one run after another; {WORKERS} worker processes each",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading in ("pool", "runs/s", "ratio", "+ms a run", "alone, ms", "+ms"):
        table.add_column(heading, justify="left" if heading == "pool" else "right", no_wrap=True)
    for result in results:
        plain = result is first
        table.add_row(
            result.pool,
            f"{result.runs_per_second:,.0f}",
            "" if plain else f"{result.ratio:.2f}",
            "" if plain else f"{result.overhead_ms:.2f}",
            f"{result.alone_ms:.1f}",
            "" if plain else f"{result.added_ms:.1f}",
        )
    return table
