"""The verdict on two arms that did the same tasks: better, worse, equivalent, noise; or none, for want of evidence.

**Better** or **worse** needs both: the sign-flip test rejects "no difference", and the bootstrap interval excludes 0.
**Equivalent** needs the interval within the margin, also when two more tasks are put in, each as different as can be,
one in favour of either arm: so a few tasks that happened to agree prove nothing. It goes before better and worse:
what differs by less than matters is equivalent. Everything else is **noise**, with a word on what would be enough.
"""

from collections.abc import Sequence
from math import ceil, isclose, log
from random import Random
from statistics import fmean, stdev
from typing import Final, Literal

from msgspec import Struct

from bench.experiment.flips import fewest_tasks, flip_test
from bench.experiment.intervals import bootstrap, z_of

Verdict = Literal["better", "worse", "equivalent", "noise", "refused", "untold"]
"""`refused`: too little to say anything; `untold`: no margin is declared, so nothing is said."""

POWER: Final = 0.8
"""What counts as enough: so often would a difference as large as the margin be found."""
FEWEST_EQUIVALENT: Final = 20
"""Fewer tasks than these show no equivalence, whatever they say."""


class Pair(Struct, frozen=True, gc=False):
    """What one task came to under the arm in question and under the baseline: means over its cells."""

    arm: float
    baseline: float


class Question(Struct, frozen=True, kw_only=True):
    """What is asked about a measure. `margin` is the smallest difference that matters, as a share of the baseline's
    mean where `relative`; None asks for an interval only. `bounded` measures lie between 0 and 1. `error` is the
    allowed chance of saying better or worse where there is no difference."""

    more_is_better: bool = True
    margin: float | None = None
    relative: bool = False
    bounded: bool = False
    error: float = 0.05


class Finding(Struct, frozen=True, kw_only=True):
    """The answer. `difference`, `low` and `high` are arm less baseline, as a share of the baseline's mean where
    relative; `p` is the sign-flip test's. `enough` is how many tasks would probably do, None if these did or nobody
    can say."""

    verdict: Verdict
    why: str
    tasks: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    enough: int | None = None


def decide(pairs: Sequence[Pair], question: Question, random: Random) -> Finding:
    """The finding from one pair a task. A pure function of its arguments and the state of `random`."""
    tasks, margin = len(pairs), question.margin
    least = fewest_tasks(question.error)
    if tasks < 2:
        return Finding(verdict="refused", why=f"{_tasks(tasks)}; {least} at least", tasks=tasks, enough=least)
    if question.relative and isclose(sum(pair.baseline for pair in pairs), 0.0, abs_tol=1e-12):
        return Finding(verdict="refused", why="the baseline's mean is 0, of which there are no shares", tasks=tasks)
    difference = _difference(pairs, question.relative)
    low, high = _interval(pairs, question, random)
    p = flip_test([pair.arm - pair.baseline for pair in pairs], random)
    told = Finding(
        verdict="untold", why="no margin is declared", tasks=tasks, difference=difference, low=low, high=high, p=p
    )
    if margin is None:
        return told
    if tasks < least:
        why = f"{_tasks(tasks)}; with fewer than {least} even the same answer from all could be chance"
        return _but(told, "refused", why, max(least, _enough(pairs, question)))
    within = -margin < low and high < margin
    if within and _equivalent_with_care(pairs, question, random):
        return _but(told, "equivalent", "the interval lies within the margin")
    if p <= question.error and not low <= 0.0 <= high:
        good = (difference > 0) == question.more_is_better
        return _but(told, "better" if good else "worse", "the interval excludes 0, and so does the sign-flip test")
    enough = _enough(pairs, question)
    if within:
        enough = max(enough, fewest_equivalent(question), tasks + 1)
        why = (
            "the interval lies within the margin, but so few tasks would miss a difference that sits in few of them; "
            f"{enough:,} at least"
        )
        return _but(told, "noise", why, enough)
    return _but(told, "noise", f"about {enough:,} tasks would show a difference as large as the margin", enough)


def fewest_equivalent(question: Question) -> int:
    """With how many tasks equivalence can be shown at all: a difference of the margin that sits wholly in a few tasks
    would have brought one of them among so many."""
    margin = question.margin or 1.0
    if not question.bounded or question.relative or margin >= 1:
        return FEWEST_EQUIVALENT
    return max(FEWEST_EQUIVALENT, ceil(log(question.error / 2) / log(1 - margin)))


def _equivalent_with_care(pairs: Sequence[Pair], question: Question, random: Random) -> bool:
    if len(pairs) < fewest_equivalent(question):
        return False
    widest = 1.0 if question.bounded else max(abs(pair.arm - pair.baseline) for pair in pairs)
    base = fmean(pair.baseline for pair in pairs)
    added = [Pair(base + widest, base), Pair(base - widest, base)]
    low, high = _interval([*pairs, *added], question, random)
    margin = question.margin or 0.0
    return -margin < low and high < margin


def _interval(pairs: Sequence[Pair], question: Question, random: Random) -> tuple[float, float]:
    if question.relative:
        both = [(pair.arm, pair.baseline) for pair in pairs]
        return bootstrap(both, _relative, random, question.error)
    size = len(pairs)
    differences = [pair.arm - pair.baseline for pair in pairs]
    return bootstrap(differences, lambda drawn: sum(drawn) / size, random, question.error)


def _difference(pairs: Sequence[Pair], relative: bool) -> float:
    if relative:
        return _relative([(pair.arm, pair.baseline) for pair in pairs])
    return fmean(pair.arm - pair.baseline for pair in pairs)


def _relative(pairs: Sequence[tuple[float, float]]) -> float:
    arms, baselines = zip(*pairs, strict=True)
    arm, baseline = sum(arms), sum(baselines)
    return float((arm - baseline) / abs(baseline)) if baseline else 0.0


def _enough(pairs: Sequence[Pair], question: Question) -> int:
    """How many tasks that vary as these do would show a difference of the margin, at a power of `POWER`."""
    margin = question.margin or 0.0
    scale = abs(fmean(pair.baseline for pair in pairs)) if question.relative else 1.0
    ratio = 1 + _difference(pairs, True) if question.relative else 1.0
    spread = stdev(pair.arm - ratio * pair.baseline for pair in pairs) / scale
    wanted = ceil(((z_of(1 - question.error / 2) + z_of(POWER)) * spread / margin) ** 2)
    return max(wanted, fewest_tasks(question.error))


def _but(told: Finding, verdict: Verdict, why: str, enough: int | None = None) -> Finding:
    return Finding(
        verdict=verdict,
        why=why,
        tasks=told.tasks,
        difference=told.difference,
        low=told.low,
        high=told.high,
        p=told.p,
        enough=enough,
    )


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"
