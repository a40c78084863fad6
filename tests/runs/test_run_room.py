"""How many runs a tenant may have, and when it is told to come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import QueueFull
from orchestrator.policy.run_room import RunRoom, retry_after


def refused(room: RunRoom, tenant: str, now: float) -> float:
    with pytest.raises(QueueFull) as caught:
        room.enter(tenant, now)
    return caught.value.retry_after


def churn(room: RunRoom, tenant: str, every: float, until: float) -> None:
    """The tenant stays full, and one of its runs ends `every` seconds."""
    now = every
    while now <= until:
        room.leave(tenant, now)
        room.enter(tenant, now)
        now += every


def full(per_tenant: int) -> RunRoom:
    room = RunRoom(per_tenant)
    for _ in range(per_tenant):
        room.enter("acme", 0)
    return room


def test_a_tenant_nobody_has_seen_is_told_ten_seconds() -> None:
    """With no history the guess is the same whatever the cap."""
    assert refused(full(1), "acme", 0) == refused(full(500), "acme", 0) == 10


@pytest.mark.parametrize("every", [2.0, 5.0, 20.0, 60.0])
def test_with_history_the_time_is_that_between_two_ends(every: float) -> None:
    """After some minutes of one end every so often, the estimate is within half of it."""
    room = full(3)
    churn(room, "acme", every, 600)
    assert refused(room, "acme", 600 + every / 2) == pytest.approx(every, rel=0.5)


def test_fast_tenants_are_told_a_second_and_silent_ones_a_minute() -> None:
    """The bounds hold, and a minute without an end is not taken for ten seconds."""
    room = full(100)
    churn(room, "acme", 0.05, 60)
    assert refused(room, "acme", 60) == 1
    assert 40 < refused(full(2), "acme", 90) < 120


def test_time_without_runs_says_nothing() -> None:
    """What was learned stays good while the tenant has no runs."""
    room = full(1)
    churn(room, "acme", 5, 300)
    before = refused(room, "acme", 300)
    room.leave("acme", 300)
    room.enter("acme", 10_000)
    assert refused(room, "acme", 10_000) == pytest.approx(before, rel=0.2)


def test_tenants_have_rooms_of_their_own() -> None:
    """One that is full leaves the others theirs."""
    room = full(2)
    room.enter("other", 0)
    refused(room, "acme", 1)
    room.leave("acme", 1)
    room.enter("acme", 1)
    assert (room.held("acme"), room.held("other"), room.held("nobody")) == (2, 1, 0)


def test_tenants_that_come_and_go_are_forgotten() -> None:
    """Only so many idle ones are remembered, however many there were."""
    room = RunRoom(1)
    for number in range(5000):
        room.enter(f"t{number}", number)
        room.leave(f"t{number}", number)
    assert len(room._idle) + len(room._tenants) <= 1024


@given(st.floats(0, 1e6), st.floats(0, 60))
def test_the_time_is_always_within_its_bounds(ended: float, seconds: float) -> None:
    """Whatever was seen."""
    assert 1 <= retry_after(ended, seconds) <= 120


def test_all_tenants_together_are_capped() -> None:
    """With invented tenants nobody gets beyond the cap on all, and a place that is given back is free for anybody."""
    room = RunRoom(10, in_all=25)
    for number in range(25):
        room.enter(f"tenant-{number}", 0)
    with pytest.raises(QueueFull, match="all tenants together have 25 runs"):
        room.enter("one-more", 0)
    room.leave("tenant-7", 5)
    room.enter("one-more", 5)
    assert 5 < refused(room, "yet-another", 5) < 10
