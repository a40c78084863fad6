"""What would have changed, as tables for people."""

import time
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.whatif.report import NEAR_SECONDS, NEAR_SHARE, Case, Use, Waits, WhatIf
from orchestrator.policy.limitspec import SPAN_NAMES

TENANTS_SHOWN: Final = 8


def what_if_tables(report: WhatIf) -> Group:
    """One backend. Of many tenants only the largest are shown; the JSON has them all."""
    parts: list[RenderableType] = [_calibration(report), Text(_verdict(report))]
    if report.changed is not None:
        parts += [_changes(report), _overview(report, report.changed), _waits(report, report.changed)]
    return Group(*parts)


def _calibration(report: WhatIf) -> Table:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(report.first))
    title = f"Backend {report.backend}: {report.recorded.calls:,} calls in {report.span:,.0f} s from {when} UTC"
    table = Table(title=f"{title}\nSeconds in queue, recorded / replayed with nothing changed")
    table.add_column("")
    for heading in ("calls", "mean", "p50", "p90", "last answer", "near"):
        table.add_column(heading, justify="right")
    for one in report.calibration[: TENANTS_SHOWN + 1]:
        pairs = [f"{was:,.1f} / {now:,.1f}" for was, now in (one.mean, one.p50, one.p90)]
        last = f"{one.finished[0]:,.0f} / {one.finished[1]:,.0f}"
        table.add_row(one.name, f"{one.calls:,}", *pairs, last, f"{one.near:.0%}")
    return table


def _verdict(report: WhatIf) -> str:
    near = f"{NEAR_SECONDS:g} s or {NEAR_SHARE:.0%}"
    if report.agrees:
        words = f"The replay agrees with the record: mean, p50 and p90 differ by at most {near}."
    else:
        words = (
            f"The replay does not agree with the record: waits differ by more than {near}. "
            "Was another configuration in force, or did something fail that was no limit?"
        )
    left_out = ", ".join(f"{number:,} {why}" for why, number in sorted(report.left_out.items()))
    return words + (f" Left out: {left_out}." if left_out else "")


def _changes(report: WhatIf) -> Text:
    return Text("Changed:\n" + "".join(f"  {change}\n" for change in report.changes), end="")


def _overview(report: WhatIf, changed: Case) -> Table:
    was = report.as_was
    table = Table(title="What would have changed, between two replays")
    for heading in ("", "as it was", "changed"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("calls answered", f"{was.answered:,}", f"{changed.answered:,}")
    table.add_row("last answer", f"{was.finished:,.1f} s", f"{changed.finished:,.1f} s")
    table.add_row("tokens a second", f"{was.per_second:,.0f}", f"{changed.per_second:,.0f}")
    table.add_row("429s expected", f"{was.refused_429 or 0:,}", f"{changed.refused_429 or 0:,}")
    for error in sorted({*was.errors, *changed.errors}):
        table.add_row(
            f"calls that end as {error}", f"{was.errors.get(error, 0):,}", f"{changed.errors.get(error, 0):,}"
        )
    for name in dict.fromkeys(_limit_of(use) for use in (*was.use, *changed.use)):
        table.add_row(f"use of {name}", _used(was.use, name), _used(changed.use, name))
    return table


def _limit_of(use: Use) -> str:
    return f"{use.endpoint}: {use.limit}/{SPAN_NAMES.get(use.per) or f'{use.per:g} s'}"


def _used(uses: Sequence[Use], name: str) -> str:
    for use in uses:
        if _limit_of(use) == name:
            share = "-" if use.mean is None or use.busiest is None else f"{use.mean:.0%}, at most {use.busiest:.0%}"
            return f"{share} of {use.amount:,.0f}"
    return "-"


def _waits(report: WhatIf, changed: Case) -> Table:
    table = Table(title="Seconds in queue: p50 / p90 / p99; last answer")
    for heading in ("", "as it was", "changed", "mean"):
        table.add_column(heading, justify="right" if heading else "left")
    was = report.as_was
    for before, after in (
        ([was.everybody], [changed.everybody]),
        (was.priorities, changed.priorities),
        (was.tenants[:TENANTS_SHOWN], [one for one in changed.tenants if one.name in _shown(was)]),
    ):
        olds, news = {one.name: one for one in before}, {one.name: one for one in after}
        for name in dict.fromkeys((*olds, *news)):
            old, new = olds.get(name), news.get(name)
            table.add_row(f"{name}, {_calls(old, new)}", _cell(old), _cell(new), _mean(old, new))
        table.add_section()
    return table


def _shown(was: Case) -> set[str]:
    return {one.name for one in was.tenants[:TENANTS_SHOWN]}


def _calls(old: Waits | None, new: Waits | None) -> str:
    numbers = [f"{one.calls:,}" for one in (old, new) if one is not None]
    return f"{' -> '.join(dict.fromkeys(numbers))} calls"


def _cell(one: Waits | None) -> str:
    return "-" if one is None else f"{one.p50:,.1f} / {one.p90:,.1f} / {one.p99:,.1f}; {one.last:,.0f} s"


def _mean(old: Waits | None, new: Waits | None) -> str:
    return "-" if old is None or new is None else f"{old.mean:,.1f} -> {new.mean:,.1f}"
