"""From the results of cells to a report: each arm by itself, and each arm against the baseline."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean

from msgspec import Struct

from bench.experiment.intervals import bootstrap, proportion
from bench.experiment.log import Result
from bench.experiment.passes import pass_all, pass_at
from bench.experiment.spec import SUCCESS, Spec
from bench.experiment.verdict import Finding, Pair, decide

MOST_MISSING = 0.05
"""Of an arm's cells so many may lack a number before no verdict is given on it: what is missing is seldom like the
rest."""
_TOLD_ERROR = 0.05

Trial = tuple[str, str, str, str]
Values = Mapping[str, Sequence[float]]


class Estimate(Struct, frozen=True, kw_only=True):
    """A mean over tasks with its 95 % interval, None where there is nothing, or one task only."""

    name: str
    mean: float | None
    low: float | None
    high: float | None
    missing: int = 0


class Passes(Struct, frozen=True, kw_only=True):
    """pass@k and pass^k, means over tasks with 95 % intervals."""

    k: int
    at_least_one: Estimate
    all: Estimate


class Arm(Struct, frozen=True, kw_only=True):
    """What one arm did in `cells` that ended, of which `timeouts` ran out of time; `broken` have no result."""

    name: str
    cells: int
    timeouts: int
    broken: int
    measures: tuple[Estimate, ...]
    passes: tuple[Passes, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """One arm against the baseline in one measure. Relative differences are shares of the baseline's mean."""

    arm: str
    baseline: str
    measure: str
    better: str
    relative: bool
    margin: float | None
    finding: Finding


class Report(Struct, frozen=True, kw_only=True):
    """An experiment, as far as it has come. `error_each` is each verdict's part of `error`."""

    name: str
    seed: int
    by: str
    baseline: str
    tasks: int
    repeats: int
    planned: int
    ended: int
    error: float
    error_each: float
    looks: int
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]


def analyse(spec: Spec, planned: int, results: Sequence[Result], broken: Sequence[Result] = ()) -> Report:
    """The report on these results, always the same for the same ones."""
    by_arm: dict[str, list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda each: each.key):
        by_arm[_arm_of(spec, result)].append(result)
    gone = [_arm_of(spec, result) for result in broken]
    ended, wanted = len(results), planned
    names = (spec.compare.baseline, *spec.others)
    return Report(
        name=spec.name,
        seed=spec.seed,
        by=spec.compare.by,
        baseline=spec.compare.baseline,
        tasks=len(spec.tasks),
        repeats=spec.repeats,
        planned=wanted,
        ended=ended,
        error=spec.error,
        error_each=spec.error_each,
        looks=spec.looks,
        arms=tuple(_arm(spec, name, by_arm[name], gone.count(name)) for name in names),
        comparisons=tuple(
            _comparison(spec, name, place, by_arm, early=wanted - ended - len(gone), gone=len(gone) / wanted)
            for name in spec.others
            for place in range(len(spec.measures))
        ),
    )


def _arm(spec: Spec, name: str, results: Sequence[Result], broken: int) -> Arm:
    return Arm(
        name=name,
        cells=len(results),
        timeouts=sum(result.state == "timeout" for result in results),
        broken=broken,
        measures=tuple(_estimate(spec, name, measure.name, results) for measure in spec.measures),
        passes=tuple(_passes(spec, name, k, results) for k in spec.k),
    )


def _estimate(spec: Spec, arm: str, measure: str, results: Sequence[Result]) -> Estimate:
    values = _by_task(results, measure)
    missing = len(results) - sum(map(len, values.values()))
    means = [fmean(each) for each in values.values()]
    if measure == SUCCESS and means:
        low, high = proportion(means, [len(each) for each in values.values()], _TOLD_ERROR)
        return Estimate(name=measure, mean=fmean(means), low=low, high=high, missing=missing)
    return _mean(measure, means, Random(f"{spec.seed} {arm} {measure}"), missing)


def _passes(spec: Spec, arm: str, k: int, results: Sequence[Result]) -> Passes:
    """Tries are the repeats of one task under one arm, model and so on; a task's are averaged over those."""
    tries: dict[str, dict[Trial, list[int]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        tries[result.task][result.key[:4]].append(result.success)

    def estimate(name: str, of: Callable[[int, int, int], float]) -> Estimate:
        shares = [
            [of(k, len(each), sum(each)) for each in cells.values() if len(each) >= k] for cells in tries.values()
        ]
        means = [fmean(each) for each in shares if each]
        return _mean(name, means, Random(f"{spec.seed} {arm} {name}"), 0)

    return Passes(k=k, at_least_one=estimate(f"pass@{k}", pass_at), all=estimate(f"pass^{k}", pass_all))


def _mean(name: str, means: Sequence[float], random: Random, missing: int) -> Estimate:
    if len(means) < 2:
        return Estimate(name=name, mean=means[0] if means else None, low=None, high=None, missing=missing)
    low, high = bootstrap(means, lambda drawn: sum(drawn) / len(drawn), random, _TOLD_ERROR)
    return Estimate(name=name, mean=fmean(means), low=low, high=high, missing=missing)


def _comparison(
    spec: Spec, arm: str, place: int, by_arm: Mapping[str, Sequence[Result]], *, early: int, gone: float
) -> Comparison:
    measure = spec.measures[place]
    question = measure.question(spec.error_each if measure.margin is not None else _TOLD_ERROR)
    ours, theirs = by_arm[arm], by_arm[spec.compare.baseline]
    random = Random(f"{spec.seed} {arm} {measure.name} against")
    finding = decide(pairs(spec, measure.name, ours, theirs), question, random)
    why = ""
    if early:
        why = f"{early:,} cells have not ended: a verdict that is looked for early and often is worth nothing"
    elif gone > MOST_MISSING:
        why = f"{gone:.0%} of all cells are broken: run it again, which repeats only those"
    elif max(_missing(ours, measure.name), _missing(theirs, measure.name)) > MOST_MISSING:
        why = f"more than {MOST_MISSING:.0%} of an arm's cells have no {measure.name!r}"
    if why and measure.margin is not None:
        finding = _refused(finding, why)
    return Comparison(
        arm=arm,
        baseline=spec.compare.baseline,
        measure=measure.name,
        better="more" if question.more_is_better else "less",
        relative=question.relative,
        margin=question.margin,
        finding=finding,
    )


def pairs(spec: Spec, measure: str, ours: Sequence[Result], theirs: Sequence[Result]) -> list[Pair]:
    """One pair for each task that both arms have: means over what else varies, where both have that, of the means over
    repeats."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    mine, base = _by_trial(spec, ours, measure), _by_trial(spec, theirs, measure)
    for trial in sorted(mine.keys() & base.keys()):
        found[trial[0]].append((fmean(mine[trial]), fmean(base[trial])))
    return [Pair(fmean(a for a, _ in both), fmean(b for _, b in both)) for both in found.values()]


def _by_trial(spec: Spec, results: Sequence[Result], measure: str) -> dict[Trial, list[float]]:
    """Values by task, system, model and environment, the compared one of which is left blank."""
    blank = ("system", "model", "environment").index(spec.compare.by) + 1
    found: dict[Trial, list[float]] = defaultdict(list)
    for result in results:
        value = _value(result, measure)
        if value is not None:
            trial = list(result.key[:4])
            trial[blank] = ""
            found[trial[0], trial[1], trial[2], trial[3]].append(value)
    return found


def _by_task(results: Sequence[Result], measure: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for result in results:
        value = _value(result, measure)
        if value is not None:
            found[result.task].append(value)
    return found


def _value(result: Result, measure: str) -> float | None:
    return float(result.success) if measure == SUCCESS else result.numbers.get(measure)


def _missing(results: Sequence[Result], measure: str) -> float:
    return sum(_value(result, measure) is None for result in results) / max(1, len(results))


def _refused(finding: Finding, why: str) -> Finding:
    return Finding(
        verdict="refused",
        why=why,
        tasks=finding.tasks,
        difference=finding.difference,
        low=finding.low,
        high=finding.high,
        p=finding.p,
    )


def _arm_of(spec: Spec, result: Result) -> str:
    return {"system": result.system, "model": result.model, "environment": result.environment}[spec.compare.by]
