"""The simulated provider's enforcement against definitions computed the slow way."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from orchestrator.backends.simulated.config import Algorithm, Counted, SimLimit
from orchestrator.backends.simulated.limits import Enforcer, Grant, Refusal
from orchestrator.backends.simulated.meters import Entry, meter

ALGORITHMS: tuple[Algorithm, ...] = ("fixed_window", "sliding_window", "token_bucket")
COUNTED: tuple[Counted, ...] = ("at_admission", "reconciled", "as_produced")

# quarters of a second: exact in floating point, so that the slow way is exact too
steps = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), min_size=1, max_size=40)


def slow_used(algorithm: Algorithm, log: list[tuple[Fraction, int]], now: Fraction, amount: int, span: int) -> Fraction:
    """What counts at `now`, from the whole history."""
    if algorithm == "fixed_window":
        return Fraction(sum(n for at, n in log if at // span == now // span))
    if algorithm == "sliding_window":
        return Fraction(sum(n for at, n in log if now - span < at))
    level, last = Fraction(0), Fraction(0)
    for at, n in [*log, (now, 0)]:
        level = max(Fraction(0), level - (at - last) * amount / span) + n
        last = at
    return level


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(steps=steps)
def test_meters_agree_with_their_definitions(algorithm: Algorithm, steps: list[tuple[int, int]]) -> None:
    """Each meter counts what its definition says, and its `wait` is the first instant at which a need fits."""
    amount, span = 100, 10
    counted = meter(algorithm, amount, span)
    log: list[tuple[Fraction, int]] = []
    now = Fraction(0)
    for quarters, need in steps:
        now += Fraction(quarters, 4)
        at = float(now)
        assert counted.used(at) == pytest.approx(float(slow_used(algorithm, log, now, amount, span)), abs=1e-3)
        wait = counted.wait(at, need)
        later = now + Fraction(wait).limit_denominator(10**6)
        slack = Fraction(1, 1000)
        assert slow_used(algorithm, log, later + slack, amount, span) + need <= amount + slack
        if wait > 0:
            assert slow_used(algorithm, log, later - slack, amount, span) + need > amount - 1
        if wait == 0:
            counted.add(at, need)
            log.append((now, need))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_need_above_the_limit_waits_for_ever(algorithm: Algorithm) -> None:
    """What exceeds the whole limit is never admitted, and says so by an infinite wait."""
    assert math.isinf(meter(algorithm, 10, 60).wait(0.0, 11))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_correction_counts_at_its_own_place_in_time(algorithm: Algorithm) -> None:
    """A correction gives room at once, and none is left of it when the amount has aged out."""
    counted = meter(algorithm, 100, 60)
    entry: Entry = counted.add(0.0, 100)
    counted.correct(entry, -60, 0.0)
    assert counted.used(0.0) == 40
    assert counted.used(60.0) == 0
    counted.correct(entry, -40, 130.0)
    assert counted.used(130.0) == 0


def limit(kind: str = "total_tokens", amount: float = 100, **more: object) -> SimLimit:
    return SimLimit(kind=kind, amount=amount, **more)  # type: ignore[arg-type]


def admitted(enforcer: Enforcer, now: float, given: int, output: int) -> Grant:
    grant = enforcer.admit(now, given, output)
    assert isinstance(grant, Grant), grant.reason
    return grant


def test_at_admission_is_never_settled() -> None:
    """Counted at admission, input + max_tokens stays counted whatever the call used."""
    enforcer = Enforcer((limit(counted="at_admission"),))
    enforcer.settle(admitted(enforcer, 0.0, 10, 80), 1.0, worked=False)
    assert enforcer.readings(59.9)[0].remaining == 10
    assert enforcer.readings(60.0)[0].remaining == 100


def test_reconciled_settles_at_the_place_of_the_admission() -> None:
    """Reconciled, the unused part returns when the call ends and the used part ages from the admission."""
    enforcer = Enforcer((limit(counted="reconciled"),))
    grant = admitted(enforcer, 0.0, 10, 80)
    enforcer.produced(grant, 30.0, 20)
    assert enforcer.readings(30.0)[0].remaining == 10
    enforcer.settle(grant, 40.0)
    assert enforcer.readings(40.0)[0].remaining == 70
    assert enforcer.readings(60.0)[0].remaining == 100


def test_as_produced_counts_output_when_it_comes() -> None:
    """As produced, output counts when it is produced, may overshoot, and a full window admits nobody."""
    enforcer = Enforcer((limit(counted="as_produced"),))
    grant = admitted(enforcer, 0.0, 10, 1000)
    assert enforcer.readings(0.0)[0].remaining == 90
    enforcer.produced(grant, 30.0, 110)
    refusal = enforcer.admit(30.0, 1, 1)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "total_tokens"
    enforcer.settle(grant, 50.0)
    assert isinstance(enforcer.admit(61.0, 1, 1), Refusal)
    assert isinstance(enforcer.admit(90.0, 1, 1), Grant)


@pytest.mark.parametrize(("algorithm", "counted"), list(product(ALGORITHMS, COUNTED)))
@settings(max_examples=25)
@given(calls=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(1, 40)), max_size=30))
def test_all_or_nothing(algorithm: Algorithm, counted: Counted, calls: list[tuple[int, int, int]]) -> None:
    """A refused call changes no limit, and whatever was admitted leaves nothing in flight once it is settled."""
    enforcer = Enforcer(
        (
            limit("requests", 5, algorithm=algorithm, counted=counted),
            limit("input_tokens", 90, algorithm=algorithm, counted=counted),
            limit("total_tokens", 150, algorithm=algorithm, counted=counted),
        ),
        max_concurrency=3,
    )
    now, open_calls = 0.0, []
    for wait, given_tokens, output in calls:
        now += wait
        before = enforcer.readings(now)
        outcome = enforcer.admit(now, given_tokens, output)
        if isinstance(outcome, Refusal):
            assert enforcer.readings(now) == before
            assert (outcome.kind is None) == (enforcer.in_flight == 3)
            for grant in open_calls:
                enforcer.settle(grant, now)
                enforcer.settle(grant, now)
            open_calls = []
        else:
            open_calls.append(outcome)
        assert enforcer.in_flight == len(open_calls)


def test_concurrency_names_no_limit() -> None:
    """Too many calls in flight is refused without naming an exhausted limit or a time."""
    enforcer = Enforcer((limit(),), max_concurrency=1)
    grant = admitted(enforcer, 0.0, 1, 1)
    refusal = enforcer.admit(0.0, 1, 1)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.wait, refusal.reason) == (None, None, "concurrency")
    enforcer.settle(grant, 0.0)
    assert isinstance(enforcer.admit(0.0, 1, 1), Grant)


def test_short_windows_enforce_the_limit_in_proportion() -> None:
    """A minute's limit enforced over one second refuses a burst that the minute would hold, and says for how long."""
    enforcer = Enforcer((limit("requests", 120, window=1.0),))
    admitted(enforcer, 0.0, 1, 1)
    admitted(enforcer, 0.0, 1, 1)
    refusal = enforcer.admit(0.5, 1, 1)
    assert isinstance(refusal, Refusal)
    assert refusal.wait == 0.5
    assert enforcer.readings(0.5)[0].remaining == 118
    assert isinstance(enforcer.admit(1.0, 1, 1), Grant)


def test_a_call_larger_than_a_short_window_passes_an_empty_one() -> None:
    """A call that no short window could hold is admitted when the window is empty."""
    enforcer = Enforcer((limit("total_tokens", 600, window=1.0),))
    admitted(enforcer, 0.0, 50, 50)
    assert isinstance(enforcer.admit(0.5, 1, 1), Refusal)
    assert isinstance(enforcer.admit(1.0, 50, 50), Grant)


def test_refused_calls_count_only_where_asked() -> None:
    """With `counts_refused` hammering an exhausted limit keeps it exhausted."""
    enforcer = Enforcer((limit("requests", 1, counted="at_admission", counts_refused=True),))
    admitted(enforcer, 0.0, 1, 1)
    for at in (30.0, 60.0, 89.0):
        assert isinstance(enforcer.admit(at, 1, 1), Refusal)
    assert isinstance(enforcer.admit(149.0, 1, 1), Grant)


def test_too_large_says_so() -> None:
    """A call larger than a limit could ever admit is told apart from one that only has to wait."""
    refusal = Enforcer((limit(),)).admit(0.0, 90, 11)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "too_large"


def test_utilisation_is_what_was_counted_over_what_was_allowed() -> None:
    """Utilisation over a span is the settled amount over the limit's share of that span."""
    enforcer = Enforcer((limit(amount=600),))
    grant = admitted(enforcer, 10.0, 100, 200)
    enforcer.produced(grant, 20.0, 50)
    enforcer.settle(grant, 20.0)
    assert enforcer.limits[0].utilisation(0, 60) == pytest.approx(0.25)
    assert enforcer.limits[0].utilisation(20, 60) == 0
    assert enforcer.limits[0].peak == 300


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("amount", [0, -1, math.nan, math.inf]),
        ("per", [0, math.nan]),
        ("window", [0, -1.0, 60.0, 61.0]),
    ],
)
def test_nonsense_limits_name_the_field(field: str, values: list[float]) -> None:
    """A limit that makes no sense is refused, with the field's full name."""
    for value in values:
        with pytest.raises(InvalidLimits) as caught:
            limit(**{"amount": 100, field: value})
        assert caught.value.field == f"limits.total_tokens.{field}"
