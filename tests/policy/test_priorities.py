"""Strict priorities with a minimum share: shares, no starvation, and what happens at the edges."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.port import Priority
from orchestrator.policy.fairness import FairConfig
from orchestrator.policy.ticket import Ticket
from tests.policy.slots import Slots

INTERACTIVE, STANDARD, BATCH = Priority


def closed_loop(server: Slots, priority: Priority, cost: float) -> None:
    """One caller that asks again as soon as it is answered."""

    def again(_now: float, _ticket: Ticket) -> None:
        server.submit("caller", cost, priority=priority, then=again)

    again(0.0, Ticket(seq=0, tenant=""))


def served(server: Slots, priority: Priority, since: float = 0.0) -> float:
    return sum(ticket.charge for at, ticket in server.ended if ticket.priority == priority and at >= since)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), slots=st.integers(1, 4))
def test_backlogged_priorities_get_90_5_5(seed: int, slots: int):
    """Three backlogged priorities get 90, 5 and 5 % of the service, whatever sizes were and were predicted."""
    rng = random.Random(seed)
    server = Slots(FairConfig(), slots)
    for priority in Priority:
        for _ in range(2500):
            cost = rng.uniform(1.0, 20.0)
            server.submit("t", cost, priority=priority, predicted=cost * rng.uniform(0.3, 3.0))
    server.run(20_000.0 / slots)
    total = sum(served(server, priority) for priority in Priority)
    shares = [served(server, priority) / total for priority in Priority]
    assert shares == pytest.approx([0.90, 0.05, 0.05], abs=0.006)


def test_a_lower_priority_never_starves():
    """Between two calls of a backlogged low priority there is never more than its share allows."""
    server = Slots(FairConfig())
    for _ in range(5000):
        server.submit("loud", 1.0, priority=INTERACTIVE)
    for _ in range(100):
        server.submit("quiet", 1.0, priority=BATCH)
    server.run(2000.0)
    starts = [at for at, ticket in server.started if ticket.priority == BATCH]
    assert len(starts) == pytest.approx(100, abs=1)
    assert max(b - a for a, b in pairwise(starts)) <= 21.0


def test_no_minimum_share_is_strict():
    """With a minimum share of 0 nothing lower goes while anything higher waits."""
    server = Slots(FairConfig(minimum_share=0.0))
    for priority in (BATCH, INTERACTIVE, STANDARD):
        for _ in range(20):
            server.submit("t", 1.0, priority=priority)
    server.run()
    order = [ticket.priority for _, ticket in server.started]
    assert order == sorted(order)


def test_one_call_at_a_time_gets_no_more_than_the_share():
    """A low priority that empties with each dispatch and comes back at once gets its share, not every other slot."""
    server = Slots(FairConfig(), 2)
    for _ in range(8000):
        server.submit("loud", 1.0, priority=INTERACTIVE)
    closed_loop(server, BATCH, 1.0)
    server.run(2000.0)
    assert served(server, BATCH) / 4000.0 == pytest.approx(0.05, abs=0.01)


def test_a_night_of_batch_work_is_not_held_against_it():
    """After a long time alone a low priority still gets its minimum share as soon as a higher one is busy."""
    server = Slots(FairConfig(), 4)
    for _ in range(6000):
        server.submit("night", 10.0, priority=BATCH, predicted=30.0)
    day = 10_000.0
    for _ in range(4000):
        server.arrive(day, "day", 10.0, priority=INTERACTIVE)
    server.run(day + 2000.0)
    assert served(server, BATCH, day + 10.0) / 8000.0 == pytest.approx(0.05, abs=0.01)


def test_refunds_of_work_done_alone_give_no_claim():
    """Refunds of calls that a low priority started while alone do not let it pass a higher one that came meanwhile."""
    server = Slots(FairConfig(), 50)
    for _ in range(500):
        server.submit("night", 10.0, priority=BATCH, predicted=1000.0)
    for _ in range(1000):
        server.arrive(5.0, "day", 10.0, priority=INTERACTIVE)
    server.run(25.0)
    after = [ticket.priority for at, ticket in server.started if at > 5.0]
    assert len(after) == 100
    assert after.count(BATCH) <= 6


def test_S10_next_free_slot_goes_to_the_higher_priority():
    """With all slots held by long batch calls, an interactive call waits for one end and then goes first."""
    server = Slots(FairConfig(), 3)
    for number in range(50):
        server.submit("night", 100.0 + number, priority=BATCH)
    urgent: list[Ticket] = []
    server.at(10.0, lambda: urgent.append(server.submit("person", 1.0, priority=INTERACTIVE)))
    server.run(150.0)
    start = next(at for at, ticket in server.started if ticket is urgent[0])
    assert start == 100.0


def test_S09_a_displaced_call_keeps_its_place():
    """A low-priority head that an urgent arrival displaces before it starts is still queued once, at its old place."""
    server = Slots(FairConfig(), 1)
    queue = server.queue
    low = [Ticket(seq=number, tenant="t", priority=BATCH) for number in range(3)]
    for ticket in low:
        queue.push(ticket, 0.0)
    assert queue.head() is low[0]
    urgent = Ticket(seq=9, tenant="t", priority=INTERACTIVE)
    queue.push(urgent, 0.0)
    assert queue.head() is urgent
    queue.start(urgent, 1.0)
    assert (len(queue), queue.queued(BATCH, "t"), queue.queued(INTERACTIVE, "t")) == (3, 3, 0)
    order = []
    while (ticket := queue.head()) is not None:
        queue.start(ticket, 1.0)
        order.append(ticket)
    assert order == low
    assert len(queue) == 0
