"""Sections of how calls are ordered and limits kept: `fairness`, `limits`, `replay`, `agents`."""

from collections.abc import Sequence

from bench.fairness.measure import Row as FairnessRow
from bench.fairness.published import DIFFERENCES, PUBLISHED, SOURCE
from bench.fairness.targets import verdicts
from bench.replay.report import PolicyReport
from bench.replay.targets import CASES, Reached
from bench.report.parts import Picture, Section, Table, Target, at_most, figure, under
from bench.report.svg import Bar, Group, bars, lines
from bench.sessions.measure import DEFAULT
from bench.sessions.report import BETTER
from bench.sessions.report import Report as SessionsReport

TENANTS_SHOWN = 5


def fairness(rows: Sequence[FairnessRow]) -> Section:
    """Every suite under every policy, beside what the paper's artifact has."""
    targets = [
        Target(
            of=f"{one.suite}, {one.policy}: {one.figure}",
            measured=one.measured,
            bound=one.bound,
            met=one.met,
            at_least=one.at_least,
            form=",.1f",
        )
        for one in verdicts(rows)
    ]
    pictures = []
    for suite in dict.fromkeys(one.suite for one in rows):
        groups = [
            Group(
                one.policy,
                [
                    Bar("greatest difference", one.max, _published(one, "max")),
                    Bar("mean difference", one.mean, _published(one, "mean")),
                ],
            )
            for one in rows
            if one.suite == suite
        ]
        pictures.append(
            Picture(
                title=f"{suite}: difference of service between clients",
                svg=bars(groups, form=",.1f"),
                caption="Less is better. Lines are the published figures, where there are any.",
            )
        )
    table = Table(
        title="Difference of service between clients, per second",
        headings=("suite", "policy", "max", "mean", "variance", "tokens/s", "published max", "mean", "variance"),
        rows=[
            [
                one.suite,
                one.policy,
                f"{one.max:,.1f}",
                f"{one.mean:,.1f}",
                f"{one.variance:,.0f}",
                f"{one.tokens_per_second:,.0f}",
                figure(_published(one, "max"), ",.1f"),
                figure(_published(one, "mean"), ",.1f"),
                figure(_published(one, "variance"), ",.0f"),
            ]
            for one in rows
        ],
        caption=f"Medians of {_replicates(rows)}. Published: {SOURCE}.",
        words=2,
    )
    return Section(targets=targets, pictures=pictures, tables=[table], notes=DIFFERENCES)


def _published(row: FairnessRow, name: str) -> float | None:
    found = PUBLISHED.get((row.suite, row.policy))
    return None if found is None else float(getattr(found, name))


def _replicates(rows: Sequence[FairnessRow]) -> str:
    numbers = sorted({one.replicates for one in rows})
    return f"{' or '.join(map(str, numbers))} replicate{'' if numbers == [1] else 's'}"


def limits(reached: Sequence[Reached]) -> Section:
    """Use of each limit and its 429s."""
    targets = []
    for one in reached:
        if one.target is None:
            continue
        allowed = _refusals(one)
        few = one.refused_429 <= allowed
        # The verdict is the benchmark's own, which has figures that are not rounded.
        enough = bool(one.met) if few else one.use >= one.target
        targets.append(
            Target(of=f"{one.case}: use", measured=one.use, bound=one.target, met=enough, at_least=True, form=".1%")
        )
        targets.append(at_most(f"{one.case}: 429s", one.refused_429, allowed, ",.1f" if allowed % 1 else ",.0f"))
    groups = [Group(one.case, [Bar("use", one.use, one.target)]) for one in reached]
    rows = [
        [
            one.case,
            f"{one.use:.1%}",
            figure(one.target, ".1%"),
            f"{one.refused_429:,}",
            f"{one.calls:,}",
            "-" if one.met is None else "yes" if one.met else "no",
        ]
        for one in reached
    ]
    return Section(
        targets=targets,
        pictures=[
            Picture(
                title="Use of a limit under twice its load",
                svg=bars(groups, form=".1%"),
                caption="Lines are the least use.",
            )
        ],
        tables=[
            Table(
                title="Use of a limit under twice its load",
                headings=("limit", "use", "target", "429s", "calls", "held"),
                rows=rows,
            )
        ],
    )


def _refusals(one: Reached) -> float:
    """The 429s that the case lets pass; none where it is no longer known."""
    return next((case.refusals for case in CASES if case.name == one.case), 0.0) * one.calls


def replay(reports: Sequence[PolicyReport]) -> Section:
    """Each trace under each policy: waits, use, 429s, fairness."""
    targets = [
        at_most(f"{one.trace}, {one.policy}: worst spread, in its bound", one.booked_spread / one.bound, 1.0)
        for one in reports
        if one.policy == DEFAULT and one.booked_spread is not None and one.bound
    ]
    pictures = []
    for trace in dict.fromkeys(one.trace for one in reports):
        of_trace = [one for one in reports if one.trace == trace]
        names = [group.name for group in of_trace[0].tenants[:TENANTS_SHOWN]]
        for share in ("p50", "p99"):
            groups = [Group(name, [Bar(one.policy, _wait(one, name, share)) for one in of_trace]) for name in names]
            pictures.append(
                Picture(
                    title=f"{trace}: {share} of waits by tenant, s",
                    svg=bars(groups, form=",.1f", unit=" s"),
                    caption="Tenants by their number of calls, the largest first.",
                )
            )
    policies = Table(
        title="Policies side by side",
        headings=(
            "trace",
            "policy",
            "calls",
            "ok",
            "429s",
            "use",
            "Jain mean",
            "Jain worst",
            "spread",
            "bound",
            "tokens/s",
        ),
        rows=[
            [
                one.trace,
                one.policy,
                f"{one.calls:,}",
                f"{one.ok:,}",
                f"{one.refused_429:,}",
                figure(one.tightest, ".1%"),
                figure(one.jain_mean, ".3f"),
                figure(one.jain_worst, ".3f"),
                figure(one.booked_spread, ",.0f"),
                figure(one.bound, ",.0f"),
                f"{one.goodput:,.0f}",
            ]
            for one in reports
        ],
        caption="Use: of the limit used most, in minutes in which calls waited throughout. Spread and bound are the"
        " owner's own books where they came nearest.",
        words=2,
    )
    waits = Table(
        title="Seconds in queue",
        headings=("trace", "policy", "of", "calls", "p50", "p90", "p99", "longest"),
        rows=[
            [
                one.trace,
                one.policy,
                each.name,
                f"{each.calls:,}",
                *(f"{value:,.1f}" for value in (each.p50, each.p90, each.p99, each.longest)),
            ]
            for one in reports
            for each in (*one.priorities, *one.tenants[:TENANTS_SHOWN])
        ],
        words=3,
    )
    return Section(targets=targets, pictures=pictures, tables=[policies, waits])


def _wait(report: PolicyReport, tenant: str, share: str) -> float | None:
    return next((float(getattr(each, share)) for each in report.tenants if each.name == tenant), None)


def agents(report: SessionsReport) -> Section:
    """The default against arrival order, and all policies over the loads."""
    targets = []
    for one in report.rows:
        if one.policy == DEFAULT:
            for field, name in BETTER.items():
                of = f"load {one.load:g}: {name}, in arrival order's"
                targets.append(under(of, one.against_fifo[field].mean, 1.0, ".4f"))
            targets.append(at_most(f"load {one.load:g}: sessions starved", one.starved, 0, ",.0f"))
            targets.append(at_most(f"load {one.load:g}: calls without an answer", one.failed, 0, ",.0f"))
    policies = list(dict.fromkeys(one.policy for one in report.rows))
    loads = list(dict.fromkeys(one.load for one in report.rows))
    pictures = []
    for field, name in BETTER.items():
        title, caption = f"Sessions: {name}, in arrival order's", "Less is better; the line is arrival order."
        if len(loads) > 1:
            series = {
                policy: [(one.load, one.against_fifo[field].mean) for one in report.rows if one.policy == policy]
                for policy in policies
            }
            svg = lines(series, x_label="load", y_label=f"{name}, ratio", level=1.0)
        else:
            svg = bars(
                [Group(one.policy, [Bar(name, one.against_fifo[field].mean, 1.0)]) for one in report.rows], form=".2f"
            )
        pictures.append(Picture(title=title, svg=svg, caption=caption))
    table = Table(
        title="Completion of sessions in seconds, slowdown against an idle backend",
        headings=(
            "policy",
            "load",
            "mean",
            "p50",
            "p95",
            "p99",
            "slowdown",
            "its p95",
            "longest wait",
            "starved",
            "429s",
        ),
        rows=[
            [
                one.policy,
                f"{one.load:g}",
                *(f"{value:,.0f}" for value in (one.mean, one.p50, one.p95, one.p99)),
                f"{one.slowdown_mean:.2f}",
                f"{one.slowdown_p95:.2f}",
                f"{one.wait_longest:,.0f}",
                f"{one.starved:,}",
                f"{one.refused:,}",
            ]
            for one in report.rows
        ],
        caption=f"Each of {report.rows[0].sessions:,} sessions; workloads: {report.rows[0].workloads}."
        if report.rows
        else "",
    )
    return Section(targets=targets, pictures=pictures, tables=[table], notes=report.missed)
