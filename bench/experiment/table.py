"""An experiment's report as tables for people."""

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from bench.experiment.analyse import Arm, Comparison, Estimate, Report
from bench.experiment.calibrate import Calibration
from bench.experiment.spec import SUCCESS
from bench.experiment.verdict import Finding

_COLOURS = {"better": "green", "worse": "red", "equivalent": "cyan", "refused": "yellow"}


def tables(report: Report) -> Iterator[Table]:
    """What each arm did, and what is said of it against the baseline."""
    yield _arms(report)
    yield _comparisons(report)


def notes(report: Report) -> Iterator[str]:
    """A sentence for each comparison that found no difference either way, and why."""
    for each in report.comparisons:
        if each.finding.verdict in ("noise", "refused"):
            yield f"{each.arm}, {each.measure}: {each.finding.verdict}: {each.finding.why}"
    if any(each.margin is not None for each in report.comparisons):
        yield (
            f"better and worse are wrong in at most {report.error:.0%} of experiments in which nothing differs: "
            f"{report.error_each:.2%} for each of these verdicts"
        )
    else:
        yield "no measure declares a margin, so there is no verdict"


def calibration_table(calibration: Calibration) -> Table:
    """How often each verdict was given, by what was true."""
    table = _table(
        f"{calibration.experiments:,} simulated experiments each: {calibration.tasks} tasks x {calibration.repeats} "
        f"repeats, {calibration.arms} arms",
        ("what is true", "measure", "better", "worse", "equivalent", "noise", "refused"),
        f"better or worse of anything: {calibration.wrong:.1%} ({calibration.wrong_low:.1%} to "
        f"{calibration.wrong_high:.1%}) where nothing differs, {calibration.mixed:.1%} where only single tasks do; "
        f"{calibration.error:.0%} are allowed",
        words=2,
    )
    for row in calibration.rows:
        table.add_row(
            row.truth,
            row.measure,
            *(f"{row.said.get(name, 0) / calibration.experiments:.1%}" for name in row.order),
        )
    return table


def _arms(report: Report) -> Table:
    table = _table(
        f"{report.name}: {report.tasks:,} tasks, {report.repeats} repeats, "
        f"{report.ended:,} of {report.planned:,} cells ended",
        ("measure", report.by, "mean", "95 % interval", "cells"),
        "means over tasks, each of which counts the same",
        words=2,
    )
    estimates = [_estimates(arm) for arm in report.arms]
    for row in zip(*estimates, strict=True):
        for arm, estimate in zip(report.arms, row, strict=True):
            table.add_row(estimate.name, arm.name, *_estimate(estimate), _cells(arm, estimate))
        table.add_section()
    return table


def _estimates(arm: Arm) -> list[Estimate]:
    found = [*arm.measures]
    for passes in arm.passes:
        found += [passes.at_least_one, passes.all]
    return found


def _comparisons(report: Report) -> Table:
    table = _table(
        f"against {report.baseline}",
        ("measure", report.by, "difference", "interval", "margin", "p", "verdict"),
        f"paired by task; intervals at {1 - report.error_each:.2%} by cluster bootstrap where there is a margin, "
        "else at 95 %; p by sign flips",
        words=2,
    )
    for measure in dict.fromkeys(each.measure for each in report.comparisons):
        for each in report.comparisons:
            if each.measure == measure:
                table.add_row(f"{measure} ({each.better})", each.arm, *_difference(each), _verdict(each.finding))
        table.add_section()
    return table


def _difference(comparison: Comparison) -> tuple[str, str, str, str]:
    finding = comparison.finding
    interval = ""
    if finding.low is not None and finding.high is not None:
        interval = f"{_amount(finding.low, comparison)} to {_amount(finding.high, comparison)}"
    return (
        _amount(finding.difference, comparison),
        interval,
        _amount(comparison.margin, comparison).lstrip("+"),
        f"{finding.p:.4f}" if finding.p is not None else "",
    )


def _estimate(estimate: Estimate) -> tuple[str, str]:
    """A mean and its interval, in as few digits as say something."""
    if estimate.mean is None:
        return "none", ""
    share = estimate.name == SUCCESS or estimate.name.startswith("pass")
    digits = ".2f" if share or abs(estimate.mean) < 10 else ",.1f" if abs(estimate.mean) < 1_000 else ",.0f"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:{digits}}", ""
    return f"{estimate.mean:{digits}}", f"{estimate.low:{digits}} to {estimate.high:{digits}}"


def _amount(value: float | None, comparison: Comparison) -> str:
    if value is None:
        return ""
    return f"{value:+.1%}" if comparison.relative else f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.0f}"


def _verdict(finding: Finding) -> Text:
    return Text(finding.verdict if finding.verdict != "untold" else "", style=_COLOURS.get(finding.verdict, ""))


def _cells(arm: Arm, estimate: Estimate) -> str:
    words = f"{arm.cells - estimate.missing:,}"
    if arm.timeouts:
        words += f", {arm.timeouts:,} timed out"
    if arm.broken:
        words += f", {arm.broken:,} broken"
    return words


def _table(title: str, headings: tuple[str, ...], caption: str, *, words: int) -> Table:
    table = Table(title=title, caption=caption, box=SIMPLE, padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < words else "right", no_wrap=place >= words)
    return table
