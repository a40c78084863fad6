"""The sessions' table."""

from rich.box import SIMPLE
from rich.table import Table

from bench.sessions.report import Ratio, Report, Row

_HEADINGS = ("load", "policy", "mean", "p50", "p95", "p99", "slow", "p95", "wait", "starved")


def sessions_table(report: Report) -> Table:
    """Completion in seconds and its change against arrival order, mean and p95 slowdown, the longest wait of a call."""
    setting = report.setting
    limits = []
    if setting.concurrency is not None:
        limits.append(f"{setting.concurrency} calls in flight")
    if setting.tokens_per_minute is not None:
        limits.append(f"{setting.tokens_per_minute:,} tokens a minute")
    title = f"Completion of agent sessions in seconds, {' and '.join(limits)}"
    table = Table(title=title, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False, collapse_padding=True)
    for heading in _HEADINGS:
        left = heading == "policy"
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    last = None
    for row in report.rows:
        if last is not None and row.load != last:
            table.add_section()
        last = row.load
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    against = row.against_fifo
    return (
        f"{row.load:g}",
        row.policy,
        f"{row.mean:,.0f} {_change(against['mean'])}",
        f"{row.p50:,.0f} {_change(against['p50'])}",
        f"{row.p95:,.0f} {_change(against['p95'])}",
        f"{row.p99:,.0f} {_change(against['p99'])}",
        f"{row.slowdown_mean:.2f} {_change(against['slowdown_mean'])}",
        f"{row.slowdown_p95:.2f} {_change(against['slowdown_p95'])}",
        f"{row.wait_longest:,.0f} s",
        f"{row.starved}" + (f", {row.failed} calls failed" if row.failed else ""),
    )


def _change(ratio: Ratio) -> str:
    return f"{100.0 * (ratio.mean - 1.0):+.0f}%"
