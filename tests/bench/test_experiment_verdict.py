"""Verdicts: what is said of pairs whose truth is plain, what is refused, and how often it is wrong."""

from random import Random
from statistics import stdev

import pytest
from rich.console import Console

from bench.experiment.calibrate import Calibration, built_in, calibrate
from bench.experiment.spec import SUCCESS, Compare, Measure, Spec
from bench.experiment.table import calibration_table
from bench.experiment.verdict import Finding, Pair, Question, decide, fewest_equivalent

MARGIN = Question(margin=0.1, bounded=True)
TOKENS = Question(margin=0.1, relative=True, more_is_better=False)


def said(pairs: list[Pair], question: Question = MARGIN) -> Finding:
    return decide(pairs, question, Random(0))


def test_a_plain_difference_is_better_one_way_and_worse_the_other() -> None:
    """An arm that gains in every task is better, its mirror image worse, and fewer tokens are better than more."""
    pairs = [Pair(0.6 + number % 3 / 10, 0.2) for number in range(10)]
    assert said(pairs).verdict == "better"
    assert said([Pair(pair.baseline, pair.arm) for pair in pairs]).verdict == "worse"
    fewer = said([Pair(100.0 + number, 200.0 + number) for number in range(10)], TOKENS)
    assert fewer.verdict == "better"
    assert fewer.difference == pytest.approx(-100 / 204.5)


def test_too_few_tasks_are_refused_with_how_many_would_do() -> None:
    """Five tasks cannot reject anything at 5 %, however plain; six can, and none or one are no ground at all."""
    five = said([Pair(1.0, 0.0)] * 5)
    assert (five.verdict, five.enough) == ("refused", 6)
    assert "5 tasks" in five.why
    assert said([Pair(1.0, 0.0)] * 6).verdict == "better"
    assert said([]).verdict == said([Pair(1.0, 0.0)]).verdict == "refused"


def test_a_few_tasks_that_agree_are_not_equivalent() -> None:
    """Arms that do the same in thirty tasks may differ in one of ten others; in a hundred tasks it would have shown."""
    few = said([Pair(1.0, 1.0)] * 30)
    assert few.verdict == "noise"
    assert few.enough == fewest_equivalent(MARGIN) == 36
    assert said([Pair(1.0, 1.0)] * 100).verdict == "equivalent"


def test_a_difference_smaller_than_the_margin_is_equivalent_though_it_is_sure() -> None:
    """1 % more tokens in every task is sure, and does not matter where 10 % would."""
    random = Random(1)
    finding = said([Pair(level * 1.01, level) for level in (random.uniform(500, 900) for _ in range(40))], TOKENS)
    assert finding.verdict == "equivalent"
    assert finding.p is not None
    assert finding.p < 0.01


def test_noise_says_what_would_be_enough() -> None:
    """It asks for the textbook's number of tasks: a power of 80 % at the margin, with the spread that was seen."""
    random = Random(4)
    pairs = [Pair(random.gauss(0.1, 0.4), 0.0) for _ in range(12)]
    finding = said(pairs)
    assert finding.verdict == "noise"
    assert finding.enough is not None
    wanted = ((1.95996 + 0.84162) * stdev(pair.arm for pair in pairs) / 0.1) ** 2
    assert wanted <= finding.enough < wanted + 1
    assert f"about {finding.enough} tasks" in finding.why


def test_a_share_of_nothing_and_no_margin_get_no_verdict() -> None:
    """A baseline of 0 has no shares, and without a margin there is an interval and no more."""
    assert said([Pair(1.0, 0.0)] * 10, TOKENS).verdict == "refused"
    told = said([Pair(1.0, 0.0)] * 10, Question())
    assert told.verdict == "untold"
    assert told.low == told.high == 1.0


@pytest.fixture(scope="module")
def small() -> Calibration:
    spec = Spec(
        name="small",
        compare=Compare(by="system", baseline="old"),
        tasks={f"task-{number}": {} for number in range(10)},
        systems={"old": {}, "new": {}},
        measures=(Measure(name=SUCCESS, margin=0.1), Measure(name="tokens", better="less", margin="10 %")),
        call="none:none",
        repeats=4,
    )
    return calibrate(spec, experiments=40, difference=0.6, seed=1)


def test_verdicts_are_wrong_no_more_often_than_declared(small: Calibration) -> None:
    """Of simulated experiments with two measures at most 5 % say better or worse where nothing is."""
    assert small.wrong <= 0.05
    assert small.mixed <= 0.05
    assert small.wrong_high > small.wrong >= small.wrong_low


def test_a_large_difference_is_found(small: Calibration) -> None:
    """A difference of 60 points, or percent, is found in most experiments, and never in the wrong direction."""
    found = [row for row in small.rows if row.difference == 0.6]
    assert [row.measure for row in found] == [SUCCESS, "tokens"]
    assert all(row.said.get("better", 0) >= 20 and "worse" not in row.said for row in found)


def test_a_calibration_is_a_table(small: Calibration) -> None:
    """What was true, what was said of it, and the error that was kept are on it."""
    console = Console(width=140, record=True)
    console.print(calibration_table(small))
    text = console.export_text()
    assert "40 simulated experiments each: 10 tasks x 4 repeats, 2 arms" in text
    assert "better by 10%, the margin, in few tasks" in text


def test_calibrations_are_repeatable() -> None:
    """The same seed gives the same figures."""
    assert calibrate(built_in(), experiments=1, seed=3) == calibrate(built_in(), experiments=1, seed=3)
