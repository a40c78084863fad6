"""The adaptive number of calls in flight."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits, Overloaded, SilenceTimeout, Throttled, Unavailable
from orchestrator.policy.concurrency import Concurrency, ConcurrencyConfig


def full_round(limiter: Concurrency, now: float = 0.0) -> None:
    """As many calls as the limit allows, at once, all answered."""
    calls = limiter.limit
    for _ in range(calls):
        limiter.started()
    for _ in range(calls):
        limiter.ended(now, sent=now)


def throttle(limiter: Concurrency, now: float, *, sent: float | None = None, exhausted: str = "") -> None:
    limiter.started()
    error = Throttled("slow down", exhausted=frozenset({exhausted} if exhausted else ()))
    limiter.ended(now, sent=now if sent is None else sent, error=error)


def test_it_doubles_until_the_first_429_and_then_creeps() -> None:
    """Full rounds double the limit; after one 429 a full round adds five per cent."""
    limiter = Concurrency(ConcurrencyConfig(initial=8))
    full_round(limiter)
    full_round(limiter)
    assert limiter.limit == 32
    for _ in range(31):
        limiter.started()
    throttle(limiter, 1.0)
    assert limiter.limit == int(0.8 * 32)
    for _ in range(31):
        limiter.ended(2.0, sent=0.5)
    before = limiter.limit
    for _ in range(10):
        full_round(limiter, 3.0)
    assert before * 1.05**9 <= limiter.limit <= before * 1.05**11


def test_a_limit_that_was_never_tried_does_not_grow() -> None:
    """One call at a time never raises the limit, however many succeed."""
    limiter = Concurrency(ConcurrencyConfig(initial=8))
    for _ in range(1000):
        limiter.started()
        limiter.ended(0.0, sent=0.0)
    assert limiter.limit == 8


def test_a_429_at_low_load_cuts_from_what_was_in_flight() -> None:
    """The cut starts from the calls in flight where they are fewer than the limit."""
    limiter = Concurrency(ConcurrencyConfig(initial=100))
    for _ in range(9):
        limiter.started()
    throttle(limiter, 1.0)
    assert limiter.limit == 8


def test_a_burst_of_429s_is_one_cut() -> None:
    """429s of calls that were sent before the last cut are ignored; a later one cuts again."""
    limiter = Concurrency(ConcurrencyConfig(initial=100))
    for _ in range(100):
        limiter.started()
    for n in range(50):
        limiter.ended(1.0 + n / 100, sent=0.5, error=Throttled("slow down"))
    assert (limiter.limit, limiter.cuts) == (80, 1)
    throttle(limiter, 2.0)
    assert limiter.cuts == 2


def test_an_exhausted_limit_is_no_sign_of_too_much_concurrency() -> None:
    """A 429 that names an exhausted token limit cuts nothing."""
    limiter = Concurrency(ConcurrencyConfig(initial=100))
    throttle(limiter, 1.0, exhausted="input_tokens")
    assert (limiter.limit, limiter.cuts) == (100, 0)


def test_R25_a_bare_429_lowers_concurrency() -> None:
    """A 429 that names nothing is taken as too many calls at once."""
    limiter = Concurrency(ConcurrencyConfig(initial=10))
    for _ in range(9):
        limiter.started()
    throttle(limiter, 1.0)
    assert limiter.limit == 8


@pytest.mark.parametrize("error", [Unavailable("500"), Overloaded("529"), SilenceTimeout("slow")], ids=lambda e: e.kind)
def test_failures_are_no_sign_of_too_much_concurrency(error: Unavailable | Overloaded) -> None:
    """5xx, 529 and silence neither cut the limit nor count as successes."""
    limiter = Concurrency(ConcurrencyConfig(initial=4))
    for _ in range(50):
        for _ in range(4):
            limiter.started()
        for _ in range(4):
            limiter.ended(1.0, sent=0.0, error=error)
    assert limiter.limit == 4


def test_fixed_stays_fixed() -> None:
    """A configured number is neither raised nor cut."""
    limiter = Concurrency(ConcurrencyConfig(fixed=6))
    for _ in range(10):
        full_round(limiter)
    throttle(limiter, 1.0)
    assert limiter.limit == 6
    assert limiter.in_flight < limiter.limit


def test_it_finds_a_hidden_limit() -> None:
    """Against an endpoint that refuses all above 40 calls at once the limit settles around 40 and stays."""
    limiter, limits = Concurrency(ConcurrencyConfig(initial=8)), []
    for second in range(400):
        sent = limiter.limit
        for _ in range(sent):
            limiter.started()
        for _ in range(max(0, sent - 40)):
            limiter.ended(second + 0.1, sent=float(second), error=Throttled("too many"))
        for _ in range(min(sent, 40)):
            limiter.ended(second + 0.5, sent=float(second))
        limits.append(limiter.limit)
    settled = limits[100:]
    assert min(settled) >= 25
    assert max(settled) <= 42


@given(st.lists(st.sampled_from(["start", "ok", "bare", "named", "down"]), max_size=300), st.integers(1, 50))
def test_it_stays_within_its_bounds(steps: list[str], at_most: int) -> None:
    """Whatever happens the limit stays between its bounds, and the calls in flight are counted exactly."""
    limiter = Concurrency(ConcurrencyConfig(initial=1, at_most=at_most))
    sent: list[float] = []
    for now, step in enumerate(steps):
        if step == "start":
            limiter.started()
            sent.append(float(now))
        elif sent:
            error = {
                "ok": None,
                "bare": Throttled("t"),
                "named": Throttled("t", exhausted=frozenset({"requests"})),
                "down": Unavailable("u"),
            }[step]
            limiter.ended(float(now), sent=sent.pop(), error=error)
        assert 1 <= limiter.limit <= at_most
        assert limiter.in_flight == len(sent)


def test_the_last_cuts_are_remembered() -> None:
    """Of seven cuts the last five are kept, each with its time and the limit before and after it."""
    limiter = Concurrency(ConcurrencyConfig(initial=100))
    limits = [limiter.limit]
    for second in range(1, 8):
        while limiter.in_flight < limiter.limit:
            limiter.started()
        throttle(limiter, float(second))
        limits.append(limiter.limit)
    assert limiter.cuts == 7
    assert [(cut.at, cut.before, cut.after) for cut in limiter.last_cuts] == [
        (float(second), limits[second - 1], limits[second]) for second in range(3, 8)
    ]


def test_S05_nonsense_bounds_name_their_field() -> None:
    """NaN, zero and contradictory bounds are refused with a message that names the field."""
    with pytest.raises(InvalidLimits, match=r"concurrency\.at_least: must be at least 1"):
        ConcurrencyConfig(at_least=0)
    with pytest.raises(InvalidLimits, match=r"concurrency\.at_most"):
        ConcurrencyConfig(at_least=5, at_most=3)
    with pytest.raises(InvalidLimits, match=r"concurrency\.initial: must be at most 4"):
        ConcurrencyConfig(initial=5, at_most=4)
    with pytest.raises(InvalidLimits, match=r"concurrency\.fixed: must be a number"):
        ConcurrencyConfig(fixed=math.nan)  # type: ignore[arg-type]
