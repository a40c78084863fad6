"""Who may take the last room of a local engine."""

import math

import pytest

from agents.errors import InvalidLimits
from orchestrator.policy.headroom import Headroom, HeadroomConfig, Room
from orchestrator.policy.ticket import Ticket


class Engine:
    """Eight slots, of which the last two are kept; a newcomer is new for 60 s, three calls may wait for a token."""

    def __init__(self, **weights: float) -> None:
        self.rules = Headroom(HeadroomConfig(at_share=3, newcomer_seconds=60.0, kept=0.25), weights)
        self.live = 0

    def start(self, tenant: str, calls: int, now: float = 0.0) -> None:
        for _ in range(calls):
            self.rules.queued(tenant, now)
            self.rules.started(tenant)
            self.rules.unqueued(tenant)
        self.live += calls

    def end(self, tenant: str, calls: int) -> None:
        for _ in range(calls):
            self.rules.ended(tenant)
        self.live -= calls

    def look(self, tenant: str, now: float, *, awaiting: int = 0) -> float:
        """0 if the tenant's next call may start, else when to look again."""
        ticket = Ticket(seq=0, tenant=tenant)
        return self.rules.keeps_back(ticket, now, Room(8, self.live, awaiting))


@pytest.mark.parametrize("config", [{"at_share": 0}, {"newcomer_seconds": math.nan}, {"kept": 0.95}, {"kept": -0.1}])
def test_what_makes_no_sense_is_refused_by_name(config: dict[str, float]) -> None:
    """The message names the field."""
    with pytest.raises(InvalidLimits, match=f"headroom.{next(iter(config))}"):
        HeadroomConfig(**config)  # type: ignore[arg-type]


def test_a_tenant_alone_has_the_whole_engine() -> None:
    """Nobody else is active, so nothing is kept back from it, however much it has."""
    engine = Engine()
    engine.start("heavy", 7)
    assert engine.look("heavy", 1.0, awaiting=5) == 0.0


def test_after_a_newcomer_the_last_slots_are_for_those_below_their_share() -> None:
    """The heavy tenant stops at six of eight slots and is told when to look again; the light one goes."""
    engine = Engine()
    engine.start("heavy", 6)
    engine.rules.queued("light", 30.0)
    assert engine.look("heavy", 30.0) == 90.0
    assert engine.look("light", 30.0) == 0.0


def test_there_is_room_for_all_before_the_last_slots() -> None:
    """A tenant above its share is stopped at the kept part only."""
    engine = Engine()
    engine.rules.queued("light", 0.0)
    engine.start("heavy", 5)
    assert engine.look("heavy", 0.0) == 0.0


def test_nothing_is_kept_when_the_newcomer_is_new_no_more() -> None:
    """A tenant that has called for a minute is served in turn, and the slots are for everybody."""
    engine = Engine()
    engine.rules.queued("light", 0.0)
    engine.start("heavy", 7)
    assert engine.look("heavy", 59.0) == 60.0
    assert engine.look("heavy", 60.0) == 0.0


def test_a_tenant_is_expected_back_for_a_while() -> None:
    """One that was served and went keeps its share until its minute is over; then the other is alone."""
    engine = Engine()
    engine.start("heavy", 7)
    engine.start("light", 1, now=10.0)
    engine.end("light", 1)
    assert engine.look("heavy", 69.0) == 70.0
    assert engine.look("heavy", 70.0) == 0.0


def test_a_tenant_with_calls_is_no_newcomer() -> None:
    """Only one that had neither queued nor live calls becomes active."""
    engine = Engine()
    engine.start("heavy", 6)
    engine.start("light", 1, now=0.0)
    engine.rules.queued("light", 100.0)
    assert engine.look("heavy", 100.0) == 0.0


def test_too_many_first_tokens_due_stop_only_whoever_has_its_share() -> None:
    """No time is named: a call has to get its first token first."""
    engine = Engine()
    engine.start("heavy", 4)
    engine.start("light", 1)
    assert engine.look("heavy", 1000.0, awaiting=3) == math.inf
    assert engine.look("heavy", 1000.0, awaiting=2) == 0.0
    assert engine.look("light", 1000.0, awaiting=3) == 0.0


def test_shares_follow_the_weights() -> None:
    """Of weights 3 and 1 the heavier tenant's share is six slots of eight."""
    engine = Engine(paying=3.0)
    engine.start("paying", 5)
    engine.start("free", 2)
    assert engine.look("paying", 0.0) == 0.0
    assert engine.look("free", 0.0) == 60.0
    engine.start("paying", 1)
    assert engine.look("paying", 0.0) == 60.0


def test_balanced_books_are_empty() -> None:
    """Every start and queueing that was undone has left nothing behind."""
    engine = Engine()
    for tenant in ("a", "b", "a"):
        engine.start(tenant, 3)
    engine.end("a", 6)
    engine.end("b", 3)
    assert repr(engine.rules) == "<Headroom queued={} live={}>"


def test_the_last_tokens_are_kept_like_the_last_slots() -> None:
    """An engine that is short of memory before it is short of slots keeps a quarter of that."""
    engine = Engine()
    engine.start("heavy", 2)
    engine.rules.queued("light", 0.0)
    engine.start("heavy", 2)
    heavy, light = (Ticket(seq=0, tenant=tenant, input=150, output=101) for tenant in ("heavy", "light"))
    room = Room(8, 4, 0, tokens=500, most_tokens=1000)
    assert engine.rules.keeps_back(heavy, 1.0, room) == 60.0
    assert engine.rules.keeps_back(light, 1.0, room) == 0.0
    small = Ticket(seq=0, tenant="heavy", input=150, output=100)
    assert engine.rules.keeps_back(small, 1.0, room) == 0.0
    assert engine.rules.keeps_back(heavy, 60.0, room) == 0.0
