"""Retry as data: what follows which error, and when."""

import math
import random
import time

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import (
    CallerGone,
    CallTimeout,
    ConnectTimeout,
    InvalidLimits,
    ModelError,
    Overloaded,
    QueueFull,
    Refused,
    SilenceTimeout,
    Throttled,
    TooLarge,
    Truncated,
    Unavailable,
)
from agents.messages import Usage
from orchestrator.policy.retry import GiveUp, RetryAt, RetryConfig, decide, is_own_try

NO_JITTER = RetryConfig(jitter=0.0)


def after(
    error: ModelError,
    *,
    attempt: int = 1,
    streamed: bool = False,
    now: float = 1000.0,
    deadline: float = math.inf,
    config: RetryConfig = NO_JITTER,
    seed: int = 0,
) -> RetryAt | GiveUp:
    return decide(
        error,
        attempt=attempt,
        streamed=streamed,
        now=now,
        deadline=deadline,
        config=config,
        rng=random.Random(seed),
    )


def delay(error: ModelError, *, attempt: int = 1, config: RetryConfig = NO_JITTER, seed: int = 0) -> float:
    verdict = after(error, attempt=attempt, config=config, seed=seed, now=0.0)
    assert isinstance(verdict, RetryAt)
    return verdict.at


@pytest.mark.parametrize(
    "error",
    [Throttled("t"), Overloaded("o"), Unavailable("u"), ConnectTimeout("c"), SilenceTimeout("s"), Truncated("t")],
    ids=lambda error: error.kind,
)
def test_the_providers_faults_are_tried_again(error: ModelError) -> None:
    """An error that the provider is to blame for leads to another try, later than now."""
    verdict = after(error)
    assert isinstance(verdict, RetryAt)
    assert verdict.at > 1000.0


@pytest.mark.parametrize(
    "error",
    [
        Refused("bad request", status=400),
        Refused("wrong key", status=401, endpoint_fault=True),
        TooLarge("too large"),
        CallTimeout("late"),
        CallerGone("gone"),
        QueueFull("full", retry_after=3.0),
    ],
    ids=lambda error: f"{error.kind}-{error.status}",
)
def test_nobody_elses_faults_are_tried_again(error: ModelError) -> None:
    """An error of the request, the queue or the caller ends the call as it is."""
    verdict = after(error)
    assert isinstance(verdict, GiveUp)
    assert verdict.error is error


def test_what_a_reader_has_seen_is_not_repeated() -> None:
    """A broken stream whose reader cannot be told to start again ends the call, with the partial answer kept."""
    error = Truncated("cut", partial="half an ans")
    verdict = after(error, streamed=True)
    assert isinstance(verdict, GiveUp)
    assert verdict.error.partial == "half an ans"


def test_attempts_are_counted_with_the_first() -> None:
    """With six attempts the fifth failure is followed by a try and the sixth is the end."""
    assert isinstance(after(Unavailable("u"), attempt=5), RetryAt)
    assert isinstance(after(Unavailable("u"), attempt=6), GiveUp)
    assert isinstance(after(Unavailable("u"), attempt=1, config=RetryConfig(attempts=1)), GiveUp)


def test_backoff_doubles_up_to_its_cap() -> None:
    """Without a hint the wait doubles from its base and stops growing at the cap."""
    config = RetryConfig(attempts=1000, jitter=0.0, cap=5.0)
    assert [delay(Unavailable("u"), attempt=n, config=config) for n in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert delay(Unavailable("u"), attempt=999, config=config) == 5.0


def test_retries_of_a_429_outlast_a_minute() -> None:
    """A 429 that names no time is tried for longer than the minute by which most limits are counted."""
    assert sum(delay(Throttled("t"), attempt=n) for n in range(1, 6)) > 60.0


@given(
    attempt=st.integers(1, 99),
    jitter=st.floats(0, 10),
    seed=st.integers(0, 2**32),
    base=st.floats(0, 1000),
    factor=st.floats(1, 100),
)
def test_jitter_only_lengthens(attempt: int, jitter: float, seed: int, base: float, factor: float) -> None:
    """Whatever the settings, a delay lies between the plain backoff and the plain backoff plus its jitter."""
    config = RetryConfig(attempts=100, base=base, factor=factor, jitter=jitter)
    plain = delay(
        Unavailable("u"), attempt=attempt, config=RetryConfig(attempts=100, base=base, factor=factor, jitter=0)
    )
    drawn = delay(Unavailable("u"), attempt=attempt, config=config, seed=seed)
    assert plain <= drawn <= plain * (1 + jitter) * (1 + 1e-12)


def test_calls_that_failed_together_come_back_apart() -> None:
    """Two calls with different random draws do not get the same moment."""
    assert delay(Unavailable("u"), config=RetryConfig(), seed=1) != delay(
        Unavailable("u"), config=RetryConfig(), seed=2
    )


@pytest.mark.parametrize("hint", [0.5, 90.0, 20.0, 0.0])
def test_R22_a_hint_is_obeyed_to_the_moment(hint: float) -> None:
    """A time that the provider named, also one that is already past, is the moment of the first retry."""
    assert delay(Throttled("t", retry_after=hint), config=RetryConfig()) == hint
    assert delay(Overloaded("o", retry_after=hint), config=RetryConfig()) == hint


@pytest.mark.parametrize("hint", [None, math.nan])
def test_R22_no_hint_falls_back_to_backoff(hint: float | None) -> None:
    """Where the provider's time made no sense the plain backoff decides."""
    assert delay(Throttled("t", retry_after=hint)) == NO_JITTER.throttled_base


@given(hint=st.floats(0, 600), attempt=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_R22_a_hint_is_never_shortened(hint: float, attempt: int, seed: int) -> None:
    """On no attempt and with no draw does the retry start before the time the provider named."""
    assert delay(Throttled("t", retry_after=hint), attempt=attempt, config=RetryConfig(), seed=seed) >= hint


def test_a_hint_that_was_wrong_is_not_trusted_alone() -> None:
    """A provider that always says `retry-after: 0` is met with growing waits after the first."""
    waits = [delay(Throttled("t", retry_after=0.0), attempt=n) for n in range(1, 5)]
    assert waits == [0.0, 4.0, 8.0, 16.0]


def test_R23_a_long_reset_is_waited_for_or_refused_whole() -> None:
    """A wait of 360 s is obeyed in full; one beyond what is configured ends the call and says so."""
    assert delay(Throttled("t", retry_after=360.0)) == 360.0
    error = Throttled("slow down", retry_after=700.0, exhausted=frozenset({"requests"}), code="rate_limit_exceeded")
    verdict = after(error)
    assert isinstance(verdict, GiveUp)
    assert isinstance(verdict.error, Throttled)
    assert "700 s, more than the 600 s" in verdict.error.message
    assert "slow down" in verdict.error.message
    assert verdict.error.retry_after == 700.0
    assert verdict.error.exhausted == {"requests"}
    assert verdict.error.code == "rate_limit_exceeded"


def test_an_endless_hint_ends_the_call_and_keeps_what_was_used() -> None:
    """An infinite retry-after is a refusal to serve; reported usage stays on the error."""
    error = Overloaded("no room", retry_after=math.inf, status=529, usage=Usage(input=7), partial="ab")
    verdict = after(error)
    assert isinstance(verdict, GiveUp)
    assert isinstance(verdict.error, Overloaded)
    assert (verdict.error.status, verdict.error.usage, verdict.error.partial) == (529, Usage(input=7), "ab")


def test_R25_a_bare_429_is_retried_and_a_billing_stop_is_not() -> None:
    """A 429 without headers backs off with jitter; a structured refusal for quota fails fast."""
    assert delay(Throttled("insufficient quota, says the prose"), config=RetryConfig(), seed=3) > 2.0
    stop = Refused("no quota", status=429, code="insufficient_quota", endpoint_fault=True)
    assert isinstance(after(stop), GiveUp)


def test_R26_529_is_retried_and_413_is_not() -> None:
    """An overloaded provider gets another try under its own name; a request too large for it gets none."""
    overloaded = Overloaded("overloaded", status=529)
    assert isinstance(after(overloaded), RetryAt)
    assert overloaded.kind == "overloaded"
    assert isinstance(after(Refused("too large", status=413)), GiveUp)


def test_a_retry_beyond_the_deadline_is_not_waited_for() -> None:
    """Where the next try could only start after the deadline the call ends now, saying both, with its cause kept."""
    error = Throttled("slow down", retry_after=20.0, code="rate_limit_exceeded")
    verdict = after(error, deadline=1005.0)
    assert isinstance(verdict, GiveUp)
    assert isinstance(verdict.error, CallTimeout)
    assert "in 20.0 s, after the call's deadline in 5.0 s: slow down" in verdict.error.message
    assert verdict.error.code == "rate_limit_exceeded"
    assert verdict.error.__cause__ is error
    assert isinstance(after(error, deadline=1020.1), RetryAt)


async def test_S04_a_wall_clock_set_back_changes_no_wait(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Setting the wall clock back one hour while a retry waits neither lengthens nor shortens the wait."""
    started = trio.current_time()
    verdict = after(Throttled("t", retry_after=20.0), now=started)
    assert isinstance(verdict, RetryAt)
    wall = time.time()
    monkeypatch.setattr(time, "time", lambda: wall - 3600)
    await trio.sleep_until(verdict.at)
    assert trio.current_time() - started == pytest.approx(20.0)
    again = after(Throttled("t", retry_after=5.0), now=trio.current_time())
    assert isinstance(again, RetryAt)
    assert again.at - trio.current_time() == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("error", "probed_after", "own"),
    [
        (Unavailable("refused", worked=False), 30.0, False),
        (ConnectTimeout("silent", worked=False), 900.0, False),
        (Unavailable("refused", worked=False), 900.1, True),
        (Unavailable("refused", worked=False), None, True),
        (Unavailable("it died over it"), 30.0, True),
        (Throttled("slow down"), 30.0, True),
        (Overloaded("loading"), 30.0, True),
    ],
)
def test_fruitless_probes_are_no_tries(error: ModelError, probed_after: float | None, own: bool) -> None:
    """A probe that certainly did no work costs its call nothing, in the first 15 minutes of an outage."""
    assert is_own_try(error, probed_after, RetryConfig()) is own


@pytest.mark.parametrize(
    "field", ["base", "throttled_base", "factor", "cap", "jitter", "obey_at_most", "outage_patience"]
)
@pytest.mark.parametrize("value", [math.nan, -1.0])
def test_S05_nonsense_settings_name_their_field(field: str, value: float) -> None:
    """NaN and negative settings are refused with a message that names the field."""
    with pytest.raises(InvalidLimits, match=rf"retry\.{field}: must be"):
        RetryConfig(**{field: value})  # type: ignore[arg-type]
