"""What a call waited for, told afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.policy.waits import FAIR_ORDER, MOMENT, SPANS, Holds, Reasons, most_first

OBSTACLES = st.sampled_from(["", "requests/min", "calls in flight", "breaker"])
STEPS = st.lists(st.tuples(st.integers(0, 3), OBSTACLES), max_size=40)
"""Whole seconds from one change to the next, so that sums are exact."""


def noted(steps: list[tuple[int, str]]) -> tuple[Holds, list[str], int]:
    """Holds that were told these steps, what held in each second, and when they end."""
    holds, seconds, now, what = Holds(0.0), list[str](), 0, ""
    for later, then in steps:
        seconds += [what] * later
        now += later
        what = then
        holds.note(what, float(now))
    return holds, [*seconds, *[what] * 5], now + 5


@given(STEPS, st.data())
def test_any_span_is_what_each_of_its_seconds_was(steps: list[tuple[int, str]], data: st.DataObject) -> None:
    """The parts of any span have no gaps, and say of each second what held then."""
    holds, seconds, end = noted(steps)
    since = data.draw(st.integers(0, end))
    until = data.draw(st.integers(since, end))
    at, said = float(since), list[str]()
    for what, begin, last in holds.between(float(since), float(until)):
        assert begin == at < last
        said += [what] * int(last - begin)
        at = last
    assert at == float(until) or since == until
    assert said == seconds[since:until]


@given(STEPS, st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "tokens/min"])), max_size=20))
def test_the_parts_of_a_wait_are_the_whole_of_it(steps: list[tuple[int, str]], parked: list[tuple[int, str]]) -> None:
    """Whatever held the backend, and however often the tenant was parked, the parts add up to the wait."""
    reasons = Reasons(0.0)
    now = 0.0
    for later, what in steps:
        now += later
        reasons.backend.note(what, now)
    at = 0.0
    for later, limit in parked:
        at += later
        reasons.parked("blue", limit, at) if limit else reasons.released("blue", at)
    now = max(now, at) + 1.0
    waits = reasons.queued("blue", 0.0, now, None)
    assert waits is not None
    assert sum(waits.values()) == pytest.approx(now)
    assert sum(reasons.held_seconds.values()) == pytest.approx(now)
    assert not any("blue" in name for name in reasons.held_seconds)


def test_a_tenants_own_limit_goes_before_the_backends() -> None:
    """While a tenant is parked its own limit held it, whatever held the others; before and after it was theirs."""
    reasons = Reasons(0.0)
    reasons.backend.note("requests/min", 1.0)
    reasons.parked("blue", "tokens/min", 2.0)
    reasons.released("blue", 5.0)
    assert reasons.queued("blue", 0.0, 7.0, None) == {FAIR_ORDER: 1.0, "requests/min": 3.0, "tenant tokens/min": 3.0}
    assert reasons.queued("red", 0.0, 7.0, None) == {FAIR_ORDER: 1.0, "requests/min": 6.0}


def test_a_dispatch_in_the_middle_does_not_end_what_holds() -> None:
    """A limit that lets one call go and holds the next at the same time has held all the while, in one span."""
    holds = Holds(0.0)
    for second in range(1, 100_000):
        holds.note("", float(second))
        holds.note("requests/min", float(second))
    assert [what for what, _, _ in holds.between(0.0, 100_000.0)] == ["", "requests/min"]


def test_what_is_remembered_is_bounded() -> None:
    """After any number of changes at most `SPANS` are kept, and a wait from before them is still told whole."""
    holds = Holds(0.0)
    for second in range(1, 10 * SPANS):
        holds.note("breaker" if second % 2 else "", float(second))
    told = list(holds.between(0.0, 10.0 * SPANS))
    assert len(told) <= SPANS + 1
    assert told[0][1] == 0.0
    assert told[-1][2] == 10.0 * SPANS


def test_a_moment_has_no_reason() -> None:
    """A call that goes at once costs nothing, and says nothing."""
    assert Reasons(0.0).queued("blue", 5.0, 5.0 + MOMENT, None) is None
    assert most_first(None) == ()


def test_attempts_add_up() -> None:
    """Waits of several attempts and those between them are told together, most first."""
    reasons = Reasons(0.0)
    reasons.backend.note("breaker", 0.0)
    waits = reasons.queued("blue", 0.0, 2.0, None)
    waits = reasons.between_attempts(2.0, 7.0, waits)
    waits = reasons.queued("blue", 7.0, 8.0, waits)
    assert most_first(waits) == (("retry", 5.0), ("breaker", 3.0))
