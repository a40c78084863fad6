"""The arithmetic of experiments, against tables, enumerations and simulations."""

from itertools import combinations, product
from math import exp
from random import Random
from statistics import NormalDist, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.experiment.flips import fewest_tasks, flip_test
from bench.experiment.intervals import bootstrap, effective_trials, proportion, student, wilson
from bench.experiment.passes import pass_all, pass_at

amounts = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (0, 0, 0, 1)],
)
def test_wilson_gives_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    """Newcombe's published examples come out, and nothing at all says nothing."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("level", "freedom", "quantile"), [(0.975, 5, 2.5706), (0.975, 29, 2.0452), (0.995, 10, 3.1693), (0.95, 8, 1.8595)]
)
def test_student_is_close_to_the_tables(level: float, freedom: int, quantile: float) -> None:
    """The expansion agrees with printed quantiles to three digits."""
    assert student(level, freedom) == pytest.approx(quantile, abs=3e-3)


def test_repeats_that_agree_are_worth_one_trial() -> None:
    """Tasks that always or never succeed count as tasks, coins thrown in every task as trials."""
    assert effective_trials([1.0, 0.0] * 10, [100] * 20) == pytest.approx(20, rel=0.06)
    assert effective_trials([1.0] * 20, [100] * 20) == 20
    random = Random(1)
    coins = [sum(random.random() < 0.5 for _ in range(10)) / 10 for _ in range(400)]
    assert 3_000 < effective_trials(coins, [10] * 400) <= 4_000


def test_intervals_of_clustered_trials_hold_the_truth() -> None:
    """Wilson's over effective trials and the bootstrap miss the mean of a clustered population about one time in 20."""
    random = Random(5)
    missed = {"wilson": 0, "bootstrap": 0}
    for _ in range(100):
        chances = [random.betavariate(1.2, 0.8) for _ in range(15)]
        shares = [sum(random.random() < chance for _ in range(5)) / 5 for chance in chances]
        low, high = proportion(shares, [5] * 15)
        missed["wilson"] += not low <= 0.6 <= high
        low, high = bootstrap(shares, fmean, random)
        missed["bootstrap"] += not low <= 0.6 <= high
    assert all(count <= 10 for count in missed.values())


def test_the_bootstrap_is_repeatable_and_needs_two_clusters() -> None:
    """The same seed gives the same interval, and one cluster gives none."""
    values = [exp(number / 7) for number in range(12)]
    assert bootstrap(values, fmean, Random(3)) == bootstrap(values, fmean, Random(3))
    with pytest.raises(ValueError, match="two clusters"):
        bootstrap([1.0], fmean, Random(3))


@given(amounts)
def test_flips_keep_their_error_rate_exactly(sizes: list[float]) -> None:
    """Of all ways to give differences signs, at most a share of a has a p value of at most a, for every a."""
    signed = [
        [size * sign for size, sign in zip(sizes, signs, strict=True)] for signs in product((1, -1), repeat=len(sizes))
    ]
    values = sorted(flip_test(each, Random(0)) for each in signed)
    for place, value in enumerate(values):
        if place + 1 == len(values) or values[place + 1] > value:
            assert (place + 1) / len(values) <= value + 1e-12


def test_flips_at_random_come_close_to_all_flips() -> None:
    """Where there are too many ways to look at, the p value is near the normal one."""
    random = Random(2)
    values = [random.gauss(0.35, 1) for _ in range(60)]
    z = abs(sum(values)) / sum(value**2 for value in values) ** 0.5
    assert flip_test(values, Random(0)) == pytest.approx(2 * (1 - NormalDist().cdf(z)), abs=0.02)
    assert flip_test([1.0] * 40, Random(0)) < 0.001
    assert flip_test([0.0] * 40, Random(0)) == 1.0


def test_fewer_tasks_than_the_fewest_cannot_reject() -> None:
    """With one task fewer even differences of one sign have a p value above the error."""
    for error in (0.05, 0.0125, 0.001):
        least = fewest_tasks(error)
        assert flip_test([1.0] * least, Random(0)) <= error < flip_test([1.0] * (least - 1), Random(0))


@given(st.integers(1, 8), st.data())
def test_passes_are_means_over_all_choices(tries: int, data: st.DataObject) -> None:
    """pass@k and pass^k are what comes out when every choice of k tries is looked at."""
    successes, k = data.draw(st.integers(0, tries)), data.draw(st.integers(1, tries))
    choices = list(combinations([1] * successes + [0] * (tries - successes), k))
    assert pass_at(k, tries, successes) == pytest.approx(fmean(any(each) for each in choices))
    assert pass_all(k, tries, successes) == pytest.approx(fmean(all(each) for each in choices))


def test_passes_of_more_tries_than_there_are_make_no_sense() -> None:
    """k beyond the tries is refused, and so are successes beyond them."""
    with pytest.raises(ValueError, match="k is 4"):
        pass_at(4, 3, 1)
    with pytest.raises(ValueError, match="4 successes"):
        pass_all(1, 3, 4)
