"""Claims as a pure machine: whatever workers say and whenever, a run has one worker at a time."""

import contextlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from orchestrator.pools.claims import Claims
from orchestrator.pools.errors import ClaimGone, NotYet
from orchestrator.views.workers import Holding

LEASE = 30.0
RUNS = st.sampled_from([f"r{n}" for n in range(6)])
WORKERS = st.sampled_from(["a", "b", "c"])


class ClaimMachine(RuleBasedStateMachine):
    """Workers that forget, die and come back, over a pool that offers, withdraws and ends runs."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.open: set[str] = {"r0", "r1", "r2"}
        self.older = set(self.open)
        self.claims = Claims("new", LEASE, 0.0, lambda run: run in self.open)
        self.held: dict[str, list[Holding]] = {
            "a": [Holding(run="r0", claim="old-1")],
            "b": [Holding(run="r1", claim="old-2"), Holding(run="r5", claim="old-4")],
            "c": [Holding(run="r1", claim="old-3")],
        }
        self.ever: dict[str, str] = {}

    @rule(run=RUNS)
    def offer(self, run: str) -> None:
        if run not in self.open:
            self.open.add(run)
        self.claims.offer(run, older=run in self.older)
        self.claims.assign(self.now)

    @rule(run=RUNS)
    def withdraw(self, run: str) -> None:
        self.claims.withdraw(run)

    @rule(run=RUNS)
    def over(self, run: str) -> None:
        self.open.discard(run)
        self.claims.over(run)

    @rule(worker=WORKERS, room=st.integers(0, 4), forgets=st.booleans(), stays=st.booleans())
    def poll(self, worker: str, room: int, forgets: bool, stays: bool) -> None:
        holding = [] if forgets else self.held[worker]
        seat, leave, _, dropped = self.claims.hear(worker, room, holding, 0, self.now)
        for run in dropped:
            self.claims.offer(run, older=False)
        self.claims.assign(self.now)
        new = self.claims.new(seat, holding)
        kept = [one for one in holding if one.run not in leave]
        taken = {one.run for one in new}
        self.held[worker] = [one for one in kept if one.run not in taken] + list(new)
        if not stays:
            self.claims.answered(seat, self.now)

    @rule(worker=WORKERS)
    def begin(self, worker: str) -> None:
        for one in self.held[worker]:
            with contextlib.suppress(ClaimGone, NotYet):
                self.claims.of(one.run, one.claim, self.now).begun = True

    @rule(seconds=st.floats(0, 2 * LEASE))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for run in self.claims.expire(self.now):
            self.claims.offer(run, older=False)
        self.claims.assign(self.now)

    @invariant()
    def one_claim_counts(self) -> None:
        """Of all that workers believe to hold, one claim to a run counts at most, and it is its holder's."""
        counting: dict[str, set[str]] = {}
        for holding in self.held.values():
            for one in holding:
                try:
                    given = self.claims.of(one.run, one.claim, self.now)
                except (ClaimGone, NotYet):
                    continue
                counting.setdefault(one.run, set()).add(given.claim)
        assert all(len(claims) == 1 for claims in counting.values())

    @invariant()
    def seats_and_claims_agree(self) -> None:
        """A worker's seat has the runs to which it has claims, and none of them waits for another."""
        given: dict[str, Any] = self.claims._given
        seats = self.claims.seats
        assert {run: one.worker for run, one in given.items()} == {
            run: seat.name for seat in seats.values() for run in seat.runs
        }
        assert not set(given) & set(self.claims._waiting)

    @invariant()
    def what_waits_has_nobody_to_go_to(self) -> None:
        """No run waits that may be given while a worker with room has an open poll."""
        free = any(seat.polling and seat.room for seat in self.claims.seats.values())
        assert not (free and list(self.claims._ready(self.now)))


TestClaims = ClaimMachine.TestCase
TestClaims.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def made(now: float = 0.0) -> Claims:
    return Claims("new", LEASE, now, lambda run: True)


def test_runs_go_to_whoever_has_most_of_its_room_left():
    """Workers of different sizes are filled evenly, in proportion to what they can drive."""
    claims = made()
    claims.hear("small", 10, (), 0, 0.0)
    claims.hear("large", 30, (), 0, 0.0)
    for number in range(20):
        claims.offer(f"r{number}", older=False)
    claims.assign(0.0)
    assert {name: len(seat.runs) for name, seat in claims.seats.items()} == {"small": 5, "large": 15}


def test_a_run_of_an_earlier_daemon_is_kept_for_its_worker():
    """Until the grace is over it is given to nobody, and then to anybody, if its worker did not come back."""
    claims = made()
    claims.hear("new", 10, (), 0, 0.0)
    claims.offer("r", older=True)
    assert claims.assign(LEASE - 1) == []
    assert [given.worker for given in claims.assign(LEASE)] == ["new"]


def test_a_claim_of_an_earlier_daemon_does_not_count_for_a_run_that_was_given_since():
    """Whoever comes back too late is told to leave."""
    claims = made()
    claims.hear("new", 10, (), 0, LEASE)
    claims.offer("r", older=True)
    claims.assign(LEASE)
    _, leave, adopted, _ = claims.hear("old", 10, [Holding(run="r", claim="old-1")], 0, LEASE)
    assert (leave, adopted) == (["r"], [])
    with pytest.raises(ClaimGone):
        claims.of("r", "old-1", LEASE)


def test_a_silent_workers_runs_are_free_when_its_lease_is_over():
    """Not before; and an open poll is a sign of life."""
    claims = made()
    seat, *_ = claims.hear("w", 10, (), 0, 0.0)
    claims.offer("r", older=False)
    claims.assign(0.0)
    assert claims.expire(10 * LEASE) == []
    claims.answered(seat, 5.0)
    assert claims.expire(LEASE + 4.9) == []
    assert claims.due(10.0) == min(LEASE, LEASE + 5.0)
    assert claims.expire(LEASE + 5.0) == ["r"]
    assert claims.seats == {}
