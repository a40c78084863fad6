"""What sessions under a policy came to, and how that compares with arrival order on the same workloads."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bench.sessions.play import Outcome
from bench.sessions.workload import Setting

OVERTAKING: Final = 600.0
"""A session one of whose calls waited so many seconds longer than arrival order's longest has starved."""


class Sample(Struct, frozen=True, kw_only=True):
    """One workload under one policy; the fields are those of `Row`."""

    mean: float
    p50: float
    p95: float
    p99: float
    slowdown_mean: float
    slowdown_p50: float
    slowdown_p95: float
    wait_mean: float
    wait_longest: float
    seconds: float
    failed: int
    refused: int
    longest: tuple[float, ...]


class Ratio(Struct, frozen=True, kw_only=True):
    """This policy's figure divided by arrival order's, workload by workload: their mean, the least and the greatest."""

    mean: float
    low: float
    high: float


class Row(Struct, frozen=True, kw_only=True):
    """A policy at a load: means over the workloads, but for `wait_longest` (the longest) and counts (sums).

    `mean` and `p50` to `p99` are of sessions' completion in seconds, `slowdown_*` of that divided by the same session's
    on an idle backend, `wait_*` of a call's time in the queue in seconds. `starved` counts sessions that a call of
    waited 600 s longer than arrival order's longest, `failed` calls without an answer, `refused` 429s. `seconds` is
    when the last session ended, `against_fifo` the ratios of the first figures to arrival order's.
    """

    load: float
    policy: str
    sessions: int
    workloads: int
    mean: float
    p50: float
    p95: float
    p99: float
    slowdown_mean: float
    slowdown_p50: float
    slowdown_p95: float
    wait_mean: float
    wait_longest: float
    starved: int
    failed: int
    refused: int
    seconds: float
    against_fifo: Mapping[str, Ratio]


class Report(Struct, frozen=True, kw_only=True):
    """All rows, and what they were measured with. `missed` names each target that the default misses."""

    setting: Setting
    seed: int
    longest_think: float | None
    rows: list[Row]
    missed: list[str]


COMPARED: Final = ("mean", "p50", "p95", "p99", "slowdown_mean", "slowdown_p50", "slowdown_p95", "wait_mean")
BETTER: Final = {"mean": "mean completion", "p50": "median completion", "slowdown_p95": "p95 slowdown"}


def sample(outcome: Outcome) -> Sample:
    """The figures of one workload."""
    seconds = sorted(one.seconds for one in outcome.sessions)
    slowdowns = sorted(one.slowdown for one in outcome.sessions)
    return Sample(
        mean=statistics.fmean(seconds),
        p50=quantile(seconds, 0.5),
        p95=quantile(seconds, 0.95),
        p99=quantile(seconds, 0.99),
        slowdown_mean=statistics.fmean(slowdowns),
        slowdown_p50=quantile(slowdowns, 0.5),
        slowdown_p95=quantile(slowdowns, 0.95),
        wait_mean=sum(one.waited for one in outcome.sessions) / sum(one.calls for one in outcome.sessions),
        wait_longest=max(one.longest for one in outcome.sessions),
        seconds=outcome.seconds,
        failed=sum(one.failed for one in outcome.sessions),
        refused=outcome.refused,
        longest=tuple(one.longest for one in outcome.sessions),
    )


def row(load: float, policy: str, samples: Sequence[Sample], fifo: Sequence[Sample]) -> Row:
    """A policy's row from its workloads and, in the same order, from arrival order's."""

    def mean(of: Callable[[Sample], float]) -> float:
        return statistics.fmean(map(of, samples))

    pairs = list(zip(samples, fifo, strict=True))
    return Row(
        load=load,
        policy=policy,
        sessions=len(samples[0].longest),
        workloads=len(samples),
        mean=mean(lambda one: one.mean),
        p50=mean(lambda one: one.p50),
        p95=mean(lambda one: one.p95),
        p99=mean(lambda one: one.p99),
        slowdown_mean=mean(lambda one: one.slowdown_mean),
        slowdown_p50=mean(lambda one: one.slowdown_p50),
        slowdown_p95=mean(lambda one: one.slowdown_p95),
        wait_mean=mean(lambda one: one.wait_mean),
        wait_longest=max(one.wait_longest for one in samples),
        starved=sum(sum(wait > base.wait_longest + OVERTAKING for wait in own.longest) for own, base in pairs),
        failed=sum(one.failed for one in samples),
        refused=sum(one.refused for one in samples),
        seconds=mean(lambda one: one.seconds),
        against_fifo={field: _ratio([(getattr(a, field), getattr(b, field)) for a, b in pairs]) for field in COMPARED},
    )


def missed(rows: Sequence[Row], policy: str) -> list[str]:
    """The targets that a policy misses, as sentences: to beat arrival order in what `BETTER` names; none starved."""
    found = []
    for one in rows:
        if one.policy == policy:
            for field, name in BETTER.items():
                ratio = one.against_fifo[field].mean
                if ratio >= 1.0:
                    found.append(f"at load {one.load:g} {policy}'s {name} is {ratio:.3f} times that of arrival order")
            if one.starved or one.failed:
                found.append(f"at load {one.load:g} {one.starved} sessions starved and {one.failed} calls failed")
    return found


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value with `part` of the others below it, in between where there is none."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    ratios = [own / base if base > 0.0 else 1.0 for own, base in pairs]
    return Ratio(mean=statistics.fmean(ratios), low=min(ratios), high=max(ratios))
