"""Sections of `what-if`, `peers` and `experiment --calibrate`."""

from collections.abc import Sequence

from bench.experiment.calibrate import Calibration
from bench.peers.report import PeersReport
from bench.report.parts import Picture, Section, Table, Target, figure
from bench.report.svg import Bar, Group, bars, stacked
from bench.whatif.report import FEW, NEAR_SECONDS, NEAR_SHARE, WhatIf

GROUPS_SHOWN = 9


def what_if(backends: Sequence[WhatIf]) -> Section:
    """How near each backend's replay is to its record."""
    targets, pictures, tables = [], [], []
    for backend in backends:
        apart, where = _farthest(backend)
        targets.append(
            Target(
                of=f"{backend.backend}: farthest from the record ({where}), in what is near",
                measured=apart,
                bound=1.0,
                met=backend.agrees,
            )
        )
        shown = backend.calibration[:GROUPS_SHOWN]
        groups = [Group(one.name, [Bar("recorded", one.mean[0]), Bar("replayed", one.mean[1])]) for one in shown]
        pictures.append(Picture(title=f"{backend.backend}: mean wait, s", svg=bars(groups, form=",.1f", unit=" s")))
        tables.append(
            Table(
                title=f"{backend.backend}: seconds in queue, recorded / replayed",
                headings=("of", "calls", "mean", "p50", "p90", "last answer", "near", "agrees"),
                rows=[
                    [
                        one.name,
                        f"{one.calls:,}",
                        *(f"{was:,.1f} / {now:,.1f}" for was, now in (one.mean, one.p50, one.p90)),
                        f"{one.finished[0]:,.0f} / {one.finished[1]:,.0f}",
                        f"{one.near:.0%}",
                        "yes" if one.agrees else "no",
                    ]
                    for one in shown
                ],
                caption=f"{backend.recorded.calls:,} calls in {backend.span:,.0f} s.",
            )
        )
    near = f"Near is up to {NEAR_SECONDS:g} s or {NEAR_SHARE:.0%} apart; groups of under {FEW} calls have no say."
    return Section(targets=targets, pictures=pictures, tables=tables, notes=[near])


def _farthest(backend: WhatIf) -> tuple[float, str]:
    """How far the worst of the waits that have a say is from the record, in what is near, and which it is."""
    everybody = backend.calibration[:1]
    found = [(0.0, "none")]
    for one in [*everybody, *(one for one in backend.calibration[1:] if one.calls >= FEW)]:
        for name, (recorded, replayed) in (("mean", one.mean), ("p50", one.p50), ("p90", one.p90)):
            near = max(NEAR_SECONDS, NEAR_SHARE * recorded)
            found.append((abs(recorded - replayed) / near, f"{one.name}, {name}"))
    return max(found)


def peers(report: PeersReport) -> Section:
    """The systems side by side. There is no target: who is compared decides what can be expected."""
    limits = report.limits
    window = "" if limits.window is None else f", also over any {limits.window:g} s"
    pictures = [
        Picture(
            title="Useful tokens, as a part of the limit",
            svg=bars([Group(one.name, [Bar("use", one.use)]) for one in report.systems], form=".1%"),
            caption="More is better.",
        ),
        Picture(
            title="Requests that the provider answered 429",
            svg=bars([Group(one.name, [Bar("429s", one.refused)]) for one in report.systems]),
            caption="Less is better.",
        ),
        Picture(
            title="When each job had its last answer, s",
            svg=bars(
                [Group(one.name, [Bar(job.name, job.ended) for job in one.jobs]) for one in report.systems],
                form=",.1f",
                unit=" s",
            ),
            caption="None: not all calls were answered.",
        ),
    ]
    table = Table(
        title=f"Two jobs of {report.small} and {report.large} calls under {limits.tpm:,.0f} tokens and"
        f" {limits.rpm:,.0f} requests a minute{window}",
        headings=(
            "system",
            "tokens/s",
            "of limit",
            "ratio",
            "last, s",
            "ratio",
            "requests",
            "429s",
            "seen",
            "wasted",
            "failures",
            "unanswered",
            "Jain",
        ),
        rows=[
            [
                one.name,
                f"{one.goodput:,.0f}",
                f"{one.use:.1%}",
                figure(one.goodput_ratio),
                f"{one.last:,.1f}",
                figure(one.last_ratio),
                f"{one.attempts:,}",
                f"{one.refused:,}",
                f"{one.seen:,}",
                f"{one.wasted:,}",
                f"{one.errors:,}",
                f"{one.unanswered:,}",
                figure(one.jain, ".3f"),
            ]
            for one in report.systems
        ],
        caption="Ratios are to the first row."
        + (f" At the token limit all of it takes {report.floor:.1f} s." if report.floor is not None else ""),
    )
    return Section(pictures=pictures, tables=[table], notes=[f"{one.name}: {one.settings}." for one in report.systems])


def experiment(found: Calibration) -> Section:
    """How often verdicts are wrong, and what they find."""
    order = found.rows[0].order if found.rows else ()
    picture = Picture(
        title="Verdicts, by what is true",
        svg=stacked(
            [
                (f"{one.truth.rstrip(',')}: {one.measure}", {name: float(one.said.get(name, 0)) for name in order})
                for one in found.rows
            ]
        ),
    )
    table = Table(
        title=f"{found.experiments:,} simulated experiments each: {found.tasks} tasks x {found.repeats} repeats,"
        f" {found.arms} arms",
        headings=("what is true", "measure", *order),
        rows=[
            [one.truth, one.measure, *(f"{one.said.get(name, 0) / found.experiments:.1%}" for name in order)]
            for one in found.rows
        ],
        caption=f"Wrong where nothing differs: 95 % interval {found.wrong_low:.1%} to {found.wrong_high:.1%}.",
        words=2,
    )
    targets = [
        Target(of=of, measured=share, bound=found.error, met=share <= found.error, form=".1%")
        for of, share in (
            ("better or worse of anything, where nothing differs", found.wrong),
            ("the same, where only single tasks differ", found.mixed),
        )
    ]
    return Section(targets=targets, pictures=[picture], tables=[table])
