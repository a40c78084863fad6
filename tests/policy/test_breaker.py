"""The breaker of an endpoint: what opens it, what closes it, and what it ignores."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import (
    CallerGone,
    CallTimeout,
    ConnectTimeout,
    InvalidLimits,
    ModelError,
    Overloaded,
    Refused,
    Throttled,
    Truncated,
    Unavailable,
)
from orchestrator.policy.breaker import BRIEF, Breaker, BreakerConfig


def opened(now: float = 10.0) -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failure(Unavailable("down"), now)
    return breaker


def test_repeated_failures_open_it() -> None:
    """Five failures in a row stop the calls for one second; four do not."""
    breaker = Breaker()
    for kind in (Unavailable, ConnectTimeout, Truncated, Unavailable):
        breaker.failure(kind("down"), 10.0)
    assert breaker.allows(10.0)
    breaker.failure(Unavailable("down"), 10.0)
    assert not breaker.allows(10.0)
    assert breaker.state(10.0) == "open"
    assert breaker.until() == 11.0


def test_an_answer_between_failures_keeps_it_closed() -> None:
    """Failures count only in a row."""
    breaker = Breaker()
    for _ in range(20):
        breaker.failure(Unavailable("down"), 10.0)
        breaker.success(10.0)
    assert breaker.state(10.0) == "closed"


@pytest.mark.parametrize(
    "error",
    [
        Throttled("slow down"),
        Overloaded("no capacity", status=529),
        Refused("bad request", status=400),
        CallerGone("gone"),
        CallTimeout("late"),
    ],
    ids=lambda error: error.kind,
)
def test_R18_what_says_nothing_of_the_endpoint_never_opens_it(error: ModelError) -> None:
    """A 400, a 429, a 529, a caller who leaves or a call that took too long is no sign of a broken endpoint."""
    breaker = Breaker()
    for _ in range(100):
        breaker.failure(error, 10.0)
    assert breaker.state(10.0) == "closed"


def test_R25_a_refusal_that_any_request_would_get_opens_it_at_once() -> None:
    """A wrong key or an exhausted quota opens the breaker with the first answer, for longer than a failure does."""
    breaker = Breaker()
    refusal = Refused("no quota", code="insufficient_quota", endpoint_fault=True)
    breaker.failure(refusal, 10.0)
    assert not breaker.allows(69.0)
    assert breaker.until() == 70.0
    assert breaker.fault is refusal


def test_a_fault_is_forgotten_when_it_no_longer_holds_the_breaker_open() -> None:
    """A probe that meets another failure, or an answer, takes the refusal's place as the reason."""
    breaker = Breaker()
    breaker.failure(Refused("wrong key", endpoint_fault=True), 10.0)
    breaker.started(70.0)
    breaker.failure(ConnectTimeout("down"), 70.0)
    assert breaker.fault is None
    breaker.failure(Refused("wrong key", endpoint_fault=True), 70.5, sent=1.0)
    assert breaker.fault is None
    breaker.started(130.0)
    breaker.failure(Refused("wrong key", endpoint_fault=True), 130.0)
    breaker.started(190.0)
    breaker.success(190.0)
    assert breaker.fault is None


def test_one_probe_at_a_time() -> None:
    """When the wait is over exactly one call passes, and the others wait for its verdict, not for a time."""
    breaker = opened(10.0)
    assert breaker.allows(11.0)
    breaker.started(11.0)
    assert breaker.state(11.0) == "half_open"
    assert not breaker.allows(500.0)
    assert breaker.until() == math.inf


def test_a_good_probe_closes_it() -> None:
    """The probe's success lets the whole load back, and the next failures are counted from zero."""
    breaker = opened(10.0)
    breaker.started(11.0)
    breaker.success(12.0, sent=11.0)
    assert breaker.state(12.0) == "closed"
    assert breaker.until() == 0.0
    for _ in range(4):
        breaker.failure(Unavailable("down"), 12.0)
    assert breaker.allows(12.0)


def test_failed_probes_double_the_wait_up_to_a_minute() -> None:
    """Each failed probe doubles the time to the next one until a minute is reached; success starts again at one."""
    breaker, now, waits = opened(0.0), 0.0, []
    for _ in range(8):
        waits.append(breaker.until() - now)
        now = breaker.until()
        breaker.started(now)
        breaker.failure(Unavailable("down"), now)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    now = breaker.until()
    breaker.started(now)
    breaker.success(now)
    for _ in range(5):
        breaker.failure(Unavailable("down"), now)
    assert breaker.until() - now == 1


def test_a_probe_whose_caller_leaves_gives_its_place_back() -> None:
    """A probe that ends without a verdict neither opens nor closes: the next call is the probe."""
    breaker = opened(10.0)
    breaker.started(11.0)
    breaker.failure(CallerGone("gone"), 11.5, sent=11.0)
    assert breaker.state(11.5) == "half_open"
    assert breaker.allows(11.5)


def test_calls_sent_before_it_opened_have_no_say() -> None:
    """A hundred calls that die together open it once, and an old stream that ends well does not close it."""
    breaker = opened(10.0)
    for _ in range(95):
        breaker.failure(Unavailable("down"), 10.5, sent=9.0)
    breaker.success(10.6, sent=8.0)
    assert breaker.until() == 11.0
    breaker.started(11.0)
    breaker.failure(Unavailable("down"), 11.1, sent=9.0)
    assert breaker.state(11.1) == "half_open"
    assert not breaker.allows(11.1)


def test_it_can_be_switched_off() -> None:
    """With `failures = 0` nothing opens it."""
    breaker = Breaker(BreakerConfig(failures=0))
    for _ in range(50):
        breaker.failure(Unavailable("down"), 1.0)
    breaker.failure(Refused("wrong key", endpoint_fault=True), 1.0)
    assert breaker.allows(1.0)


@given(st.lists(st.tuples(st.sampled_from(["ok", "down", "gone", "refused", "tick"]), st.floats(0, 90)), max_size=60))
def test_it_never_locks_for_ever(steps: list[tuple[str, float]]) -> None:
    """After any history, once the calls in flight have ended, a call may pass within the longest wait."""
    breaker, now = Breaker(), 0.0
    for what, dt in steps:
        now += dt
        if not breaker.allows(now):
            assert breaker.until() > now
            continue
        breaker.started(now)
        if what == "ok":
            breaker.success(now)
        elif what == "down":
            breaker.failure(Unavailable("down"), now)
        elif what == "gone":
            breaker.undecided(sent=now)
        elif what == "refused":
            breaker.failure(Refused("key", endpoint_fault=True), now)
        else:
            breaker.failure(Throttled("slow"), now)
    assert breaker.until() <= now + 60.0
    assert breaker.allows(now + 60.0)


def test_it_knows_its_probe_and_how_long_the_endpoint_was_down() -> None:
    """Of the calls of an endpoint that answered before, the probe alone is told how long nobody had answered."""
    breaker = Breaker()
    breaker.success(5.0)
    for _ in range(5):
        breaker.failure(Unavailable("down"), 10.0, sent=9.0)
    assert breaker.probed_after(sent=9.0) is None
    breaker.started(11.0)
    assert breaker.probed_after(sent=11.0) == 1.0
    breaker.failure(Unavailable("down"), 11.5, sent=11.0)
    assert breaker.probed_after(sent=11.0) is None
    breaker.started(14.0)
    assert breaker.probed_after(sent=14.0) == 4.0


def test_an_endpoint_that_never_answered_has_no_outage() -> None:
    """Where nothing was ever answered nobody knows that the endpoint exists, so no time of being down is told."""
    breaker = opened(10.0)
    breaker.started(11.0)
    assert breaker.probed_after(sent=11.0) is None


def test_it_says_what_the_endpoint_last_failed_with() -> None:
    """While it is not closed it tells kind and message of the failure that opened it last, on one short line."""
    breaker = Breaker()
    for _ in range(4):
        breaker.failure(Unavailable("down"), 10.0)
    assert breaker.failing_with == ""
    breaker.failure(ConnectTimeout("no answer\nfrom " + 500 * "x"), 10.0)
    assert breaker.failing_with.startswith("connect_timeout: no answer from xxx")
    assert len(breaker.failing_with) == BRIEF
    breaker.started(11.0)
    breaker.failure(Refused("a wrong key", endpoint_fault=True), 11.5, sent=11.0)
    assert breaker.failing_with == "refused: a wrong key"
    breaker.started(80.0)
    breaker.success(80.5, sent=80.0)
    assert breaker.failing_with == ""


def test_S05_nonsense_settings_name_their_field() -> None:
    """NaN, zero and contradictory waits are refused with a message that names the field."""
    with pytest.raises(InvalidLimits, match=r"breaker\.wait: must be a number"):
        BreakerConfig(wait=math.nan)
    with pytest.raises(InvalidLimits, match=r"breaker\.wait: must be above 0"):
        BreakerConfig(wait=0.0)
    with pytest.raises(InvalidLimits, match=r"breaker\.wait_at_most: must be at least 5"):
        BreakerConfig(wait=5.0, wait_at_most=1.0)
