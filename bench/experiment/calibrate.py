"""Whether the verdicts keep what they promise: given on simulated experiments whose truth is known.

Tasks are drawn from a population for each experiment. Success: each task has its own chance, Beta(1.2, 0.8), so that
many are nearly hopeless or nearly certain. Numbers: lognormal among tasks (sigma 0.8) and among repeats (0.5), which is
about what tokens and seconds of agents look like. The arms of a task are independent given the task.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import exp
from random import Random
from statistics import fmean
from typing import Final, Literal

from msgspec import Struct

from bench.experiment.intervals import wilson
from bench.experiment.spec import SUCCESS, Compare, Measure, Spec, SpecError
from bench.experiment.verdict import Pair, decide

EXPERIMENTS: Final = 1_000
ORDER: Final = ("better", "worse", "equivalent", "noise", "refused")
_EITHER_WAY: Final = 0.3

Truth = Literal["none", "mixed", "difference", "margin"]


class Row(Struct, frozen=True, kw_only=True):
    """How often each verdict was given of the first arm in one measure, while `truth` held. `difference` is in points
    of success, or as a share of the baseline's mean."""

    truth: str
    measure: str
    difference: float
    said: dict[str, int]
    order: tuple[str, ...] = ORDER


class Calibration(Struct, frozen=True, kw_only=True):
    """How often verdicts were wrong, and how often they found what there was.

    `wrong` is the share of experiments that said better or worse of anything where nothing differs, with its 95 %
    interval; `mixed` the same where tasks favour one arm or the other, but none on average. `error` is what is allowed.
    """

    experiments: int
    tasks: int
    repeats: int
    arms: int
    seed: int
    error: float
    wrong: float
    wrong_low: float
    wrong_high: float
    mixed: float
    rows: tuple[Row, ...]


def built_in() -> Spec:
    """The design that is calibrated where no file names another."""
    return Spec(
        name="built in",
        compare=Compare(by="system", baseline="old"),
        tasks={f"task-{number}": {} for number in range(30)},
        systems={"old": {}, "new": {}},
        measures=(
            Measure(name=SUCCESS, margin=0.1),
            Measure(name="tokens", better="less", margin="10 %"),
        ),
        call="nothing:nothing",
        repeats=5,
    )


def calibrate(
    spec: Spec,
    *,
    experiments: int = EXPERIMENTS,
    difference: float = 0.2,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Simulates experiments of a file's design, without running a cell of it, and judges them as real ones are.

    `difference` is what the first arm is better by where it is. `SpecError` where no margin is declared.
    """
    measures = [measure for measure in spec.measures if measure.margin is not None]
    if not measures:
        raise SpecError(f"{spec.name!r} declares no margin, so there are no verdicts to calibrate")
    rows: list[Row] = []
    wrong: dict[Truth, int] = {}
    for truth in ("none", "mixed", "difference", "margin"):
        said = [Counter[str]() for _ in measures]
        wrong[truth] = 0
        for number in range(experiments):
            if number % 100 == 0:
                tell(f"{truth}: {number:,} of {experiments:,} experiments")
            random = Random(f"{seed} {truth} {number}")
            verdicts = [_judged(spec, measure, truth, difference, random) for measure in measures]
            for counter, (first, *_) in zip(said, verdicts, strict=True):
                counter[first] += 1
            wrong[truth] += any(each in ("better", "worse") for given in verdicts for each in given)
        for measure, counter in zip(measures, said, strict=True):
            amount = _amount(measure, truth, difference)
            rows.append(
                Row(truth=_words(truth, measure, amount), measure=measure.name, difference=amount, said=dict(counter))
            )
    low, high = wilson(wrong["none"], experiments)
    return Calibration(
        experiments=experiments,
        tasks=len(spec.tasks),
        repeats=spec.repeats,
        arms=1 + len(spec.others),
        seed=seed,
        error=spec.error,
        wrong=wrong["none"] / experiments,
        wrong_low=low,
        wrong_high=high,
        mixed=wrong["mixed"] / experiments,
        rows=tuple(rows),
    )


def _judged(spec: Spec, measure: Measure, truth: Truth, difference: float, random: Random) -> Sequence[str]:
    """The verdicts on all arms in one measure; only the first of them differs from the baseline."""
    question = measure.question(spec.error_each)
    amount = _amount(measure, truth, difference)
    columns = [
        _success(random, spec.repeats, truth, amount, len(spec.others))
        if measure.name == SUCCESS
        else _number(random, spec.repeats, truth, amount if question.more_is_better else -amount, len(spec.others))
        for _ in spec.tasks
    ]
    return [
        decide([Pair(arms[place], baseline) for baseline, arms in columns], question, random).verdict
        for place in range(len(spec.others))
    ]


def _success(random: Random, repeats: int, truth: Truth, amount: float, others: int) -> tuple[float, list[float]]:
    """One task: the baseline's share of successes, and each arm's."""
    chance = random.betavariate(1.2, 0.8)
    first = chance
    if truth == "difference":
        chance *= 1 - amount
        first = chance + amount
    elif truth == "margin" and random.random() < amount:
        # The hardest case for equivalence: all of the difference sits in few tasks, which one arm alone can do.
        chance, first = 0.0, 1.0
    elif truth == "mixed":
        chance = _EITHER_WAY + chance * (1 - 2 * _EITHER_WAY)
        first = chance + random.choice((_EITHER_WAY, -_EITHER_WAY))
    chances = [first, *[chance] * (others - 1)]
    return _share(random, chance, repeats), [_share(random, each, repeats) for each in chances]


def _number(random: Random, repeats: int, truth: Truth, amount: float, others: int) -> tuple[float, list[float]]:
    level = 1_000 * exp(random.gauss(0, 0.8))
    factor = 1.0
    if truth == "mixed":
        factor = 1 + random.choice((_EITHER_WAY, -_EITHER_WAY))
    elif truth != "none":
        factor = 1 + amount
    factors = [factor, *[1.0] * (others - 1)]

    def mean(scale: float) -> float:
        return fmean(level * scale * exp(random.gauss(0, 0.5)) for _ in range(repeats))

    return mean(1.0), [mean(each) for each in factors]


def _share(random: Random, chance: float, repeats: int) -> float:
    return sum(random.random() < chance for _ in range(repeats)) / repeats


def _amount(measure: Measure, truth: Truth, difference: float) -> float:
    if truth == "difference":
        return difference
    return (measure.question(0.05).margin or 0.0) if truth == "margin" else 0.0


def _words(truth: Truth, measure: Measure, amount: float) -> str:
    if truth == "none":
        return "no difference"
    if truth == "mixed":
        return "none on average, but in single tasks"
    where = " in few tasks" if truth == "margin" and measure.name == SUCCESS else ""
    return f"better by {amount:.0%}{', the margin,' if truth == 'margin' else ''}{where}"
