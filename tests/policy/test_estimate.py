"""Sizes are learned from reported usage, and only from that."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from agents.messages import Usage
from orchestrator.policy.estimate import MIN_CV, Estimator, ServiceWeights

KEY = ("tenant", "job")


def teach(estimator: Estimator, usage: Usage, *, bytes: int = 4000, key: object = KEY, previous: float = 0.0) -> None:
    estimator.observe(key=key, bytes=bytes, messages=2, usage=usage, previous_input=previous)


def test_the_first_call_is_estimated_from_priors() -> None:
    """Before anything was reported: a quarter of a token per byte, a template's tokens per message, 30 % deviation."""
    estimate, sigma = Estimator().input(4000, 2)
    assert estimate == 1000 + 8
    assert sigma == pytest.approx(0.3 * estimate)


def test_the_ratio_follows_what_is_reported() -> None:
    """Another tokenizer's ratio is learned within some tens of calls, and again when it changes."""
    estimator = Estimator()
    for ratio in (0.5, 0.2):
        for _ in range(200):
            teach(estimator, Usage(input=8 + int(4000 * ratio)))
        assert estimator.ratio == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize("spread", [0.05, 0.15, 0.3])
def test_cv_is_the_spread_of_the_estimates(spread: float) -> None:
    """The learned deviation approaches the true one, so four of it cover nearly every call."""
    estimator, rng = Estimator(), random.Random(1)
    beyond = 0
    for n in range(2000):
        size = rng.randint(500, 8000)
        actual = int(8 + size * 0.3 * max(0.05, rng.gauss(1.0, spread)))
        estimate, sigma = estimator.input(size, 2)
        if n > 100:
            beyond += abs(actual - estimate) > 4 * sigma
        teach(estimator, Usage(input=actual), bytes=size)
    assert estimator.cv == pytest.approx(spread, rel=0.35)
    assert beyond <= 4


def test_cv_counts_the_bias_of_the_estimate() -> None:
    """While the ratio is wrong the margin is wide."""
    estimator = Estimator()
    teach(estimator, Usage(input=2008))
    assert estimator.cv > 0.5


def test_cv_never_vanishes() -> None:
    """Calls that were all alike leave a little doubt about the next one."""
    estimator = Estimator()
    for _ in range(5000):
        teach(estimator, Usage(input=1008))
    assert estimator.cv == MIN_CV


def test_all_input_counts_whether_cached_or_not() -> None:
    """A provider reads every token of the input, also those it finds in its cache."""
    estimator = Estimator()
    for _ in range(300):
        teach(estimator, Usage(input=100, cached=1800, cache_write=108))
    assert estimator.ratio == pytest.approx(0.5, rel=0.02)


def test_output_is_shrunk_towards_the_backend() -> None:
    """(n * own average + 2 * the backend's) / (n + 2): a flow with little history is predicted like everybody."""
    estimator = Estimator()
    for _ in range(50):
        teach(estimator, Usage(output=100), key="chatty")
    assert estimator.output("new", 4096) == pytest.approx(100)
    teach(estimator, Usage(output=400), key="new")
    everybody = 100 + 0.1 * 300
    assert estimator.output("new", 4096) == pytest.approx((400 + 2 * everybody) / 3)
    for _ in range(40):
        teach(estimator, Usage(output=400), key="new")
        teach(estimator, Usage(output=100), key="chatty")
    assert estimator.output("new", 4096) > 370
    assert estimator.output("chatty", 4096) < 150


@given(outputs=st.lists(st.integers(0, 10_000), max_size=30), bound=st.integers(1, 5000))
@settings(deadline=None)
def test_output_is_never_predicted_beyond_its_bound(outputs: list[int], bound: int) -> None:
    """Whatever was seen, a prediction is at most `max_tokens` and within what was seen."""
    estimator = Estimator()
    for output in outputs:
        teach(estimator, Usage(output=output))
    prediction = estimator.output(KEY, bound)
    assert 0 <= prediction <= bound
    if outputs:
        assert prediction <= max(outputs) + 1e-6


def test_nothing_is_cached_until_the_backend_says_so() -> None:
    """The predicted share is 0 before the first cached token, then what came true of what a run repeated."""
    estimator = Estimator()
    for _ in range(5):
        teach(estimator, Usage(input=1000, cached=0), previous=900)
        teach(estimator, Usage(input=1000), previous=900)
    assert estimator.cached(900, 1000) == 0
    for _ in range(30):
        teach(estimator, Usage(input=136, cached=864), previous=900)
    assert estimator.cached(900, 1000) == pytest.approx(864)
    assert estimator.cached(2000, 1000) == pytest.approx(960)
    assert estimator.cached(None, 1000) == 0
    for _ in range(60):
        teach(estimator, Usage(input=1000, cached=0), previous=900)
    assert estimator.cached(900, 1000) < 5


def test_a_first_call_says_nothing_of_the_cache() -> None:
    """A run's first call repeats nothing of its own; what it found cached was somebody else's."""
    estimator = Estimator()
    teach(estimator, Usage(input=100, cached=900), previous=0.0)
    estimator.observe(key=KEY, bytes=4000, messages=2, usage=Usage(input=100, cached=900))
    assert estimator.cached(900, 1000) == 0


def test_unknown_usage_teaches_nothing() -> None:
    """Unknown is not 0: a call without reported usage leaves every estimate as it was."""
    estimator = Estimator()
    for _ in range(20):
        teach(estimator, Usage(input=1500, cached=100, output=70), previous=500)
    before = (estimator.input(1000, 3), estimator.output(KEY, 500), estimator.cached(100, 200), estimator.cv)
    for _ in range(20):
        teach(estimator, Usage(), previous=500)
    assert before == (estimator.input(1000, 3), estimator.output(KEY, 500), estimator.cached(100, 200), estimator.cv)


def test_a_call_of_no_bytes_is_no_fault() -> None:
    """Empty inputs are estimated and learned from without dividing by zero."""
    estimator = Estimator()
    assert estimator.input(0, 0) == (0, 0)
    estimator.observe(key=KEY, bytes=0, messages=0, usage=Usage(input=0, output=0))
    estimator.observe(key=KEY, bytes=0, messages=1, usage=Usage(input=5, output=0))
    assert math.isfinite(estimator.input(100, 1)[0])


def test_flows_are_forgotten_in_the_order_of_their_last_call() -> None:
    """Memory is bounded; a flow that keeps calling is kept."""
    estimator = Estimator(keys=10)
    teach(estimator, Usage(output=10), key="kept")
    for n in range(1000):
        teach(estimator, Usage(output=500), key=n)
        if n % 5 == 0:
            teach(estimator, Usage(output=10), key="kept")
    assert "keys=10" in repr(estimator)
    assert estimator.output("kept", 4096) < 200 < estimator.output(0, 4096)


def test_service_is_weighted_tokens() -> None:
    """Cached input is a tenth, output twice a token of fresh input."""
    assert ServiceWeights().cost(100, 50, 10) == 125
    assert ServiceWeights(w_in=3, w_cached=0, w_out=15).cost(100, 50, 10) == 450


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_weights_that_make_no_sense_are_refused_by_name(value: float) -> None:
    """A weight is a finite number of at least 0."""
    with pytest.raises(InvalidLimits, match=r"weights\.w_out"):
        ServiceWeights(w_out=value)
