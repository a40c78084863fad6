"""The fair queue's contract: what it hands out, what it forgets, what it refuses."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.policy.fair_tree import IDLE_KEPT, Branch
from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.ticket import Ticket

INTERACTIVE, STANDARD, BATCH = Priority


def branches(queue: FairQueue) -> list[Branch[Any]]:
    """Every node that has children, to look at the sizes of its heaps."""
    return [node for tree in queue._trees for node in (tree, *tree.children.values())]


def serve(queue: FairQueue, charge: float = 1.0) -> Ticket:
    """Plays one call of the head from dispatch to end."""
    ticket = queue.head()
    assert ticket is not None
    queue.start(ticket, charge)
    queue.settle(ticket, charge)
    return ticket


def filled(*flows: tuple[str, Priority]) -> tuple[FairQueue, list[Ticket]]:
    queue = FairQueue(FairConfig())
    tickets = [Ticket(seq=seq, tenant=tenant, priority=priority) for seq, (tenant, priority) in enumerate(flows)]
    for ticket in tickets:
        queue.push(ticket, float(ticket.seq))
    return queue, tickets


def test_an_empty_queue_has_no_head():
    """Nothing queued: no head, no candidates."""
    queue = FairQueue(FairConfig())
    assert queue.head() is None
    assert list(queue.candidates()) == []
    assert len(queue) == 0


def test_candidates_are_one_call_per_priority_and_tenant():
    """The order names each tenant's first call once per priority, the due priority first, then high to low."""
    queue, tickets = filled(
        ("a", BATCH), ("a", STANDARD), ("a", STANDARD), ("b", STANDARD), ("b", STANDARD), ("c", INTERACTIVE)
    )
    assert list(queue.candidates()) == [tickets[5], tickets[1], tickets[3], tickets[0]]
    serve(queue)
    # batch and standard have a debt now, and the lowest goes first
    assert list(queue.candidates()) == [tickets[0], tickets[1], tickets[3]]


def test_looking_changes_nothing():
    """Looking through candidates, wholly or in part, leaves the order as it was."""
    rng = random.Random(3)
    queue, _ = filled(*[(rng.choice("abcdefgh"), rng.choice(list(Priority))) for _ in range(100)])
    for _ in range(60):
        expected = list(queue.candidates())
        for count in (1, 3, 99):
            for position, _ticket in enumerate(queue.candidates()):
                if position == count:
                    break
            assert list(queue.candidates()) == expected
        assert serve(queue, rng.uniform(1, 9)) is expected[0]


def test_candidates_may_be_discarded_and_parked_while_looking():
    """Calls that leave and tenants that stop during the iteration drop out of it and of the queue."""
    queue, tickets = filled(*[(name, STANDARD) for name in "abcdef"])
    seen = []
    for ticket in queue.candidates():
        seen.append(ticket.tenant)
        if ticket.tenant == "a":
            queue.discard(tickets[1])
        if ticket.tenant == "c":
            queue.park("c")
            queue.park("e")
    assert seen == ["a", "c", "d", "f"]
    assert [ticket.tenant for ticket in queue.candidates()] == ["a", "d", "f"]
    queue.unpark("c")
    queue.unpark("e")
    assert sorted(ticket.tenant for ticket in queue.candidates()) == ["a", "c", "d", "e", "f"]


def test_a_started_candidate_ends_no_iteration():
    """After one of the candidates was started the next ones are still the others in order."""
    queue, tickets = filled(*[(name, STANDARD) for name in "aabbcc"])
    looking = queue.candidates()
    assert next(looking) is tickets[0]
    queue.start(tickets[0], 5.0)
    assert [ticket.tenant for ticket in looking] == ["b", "c"]


def test_other_changes_end_the_iteration():
    """An arrival during the iteration makes it fail loudly instead of giving a wrong order."""
    queue, _ = filled(("a", STANDARD), ("b", STANDARD))
    looking = queue.candidates()
    next(looking)
    queue.push(Ticket(seq=9, tenant="c"), 9.0)
    with pytest.raises(RuntimeError, match="changed while"):
        next(looking)


def test_a_parked_tenant_is_eligible_in_no_priority():
    """Parking stops a tenant in all priorities, also for calls that arrive meanwhile; its calls stay counted."""
    queue, _ = filled(("a", STANDARD), ("a", BATCH), ("b", STANDARD))
    queue.park("a")
    queue.push(Ticket(seq=9, tenant="a", priority=INTERACTIVE), 0.0)
    assert {ticket.tenant for ticket in queue.candidates()} == {"b"}
    assert len(queue) == 4
    assert queue.tenants()["a"].parked
    queue.unpark("a")
    assert queue.head() is not None
    assert [ticket.priority for ticket in queue.candidates() if ticket.tenant == "a"] == list(Priority)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_departures_leave_every_count_at_zero(seed: int):
    """When all callers leave, queued or in flight, in any order, nothing is counted, eligible or owed any more."""
    rng = random.Random(seed)
    queue = FairQueue(FairConfig())
    tickets = [
        Ticket(seq=seq, tenant=rng.choice("abc"), job=rng.choice("xyz"), priority=rng.choice(list(Priority)))
        for seq in range(200)
    ]
    live = []
    for ticket in tickets:
        queue.push(ticket, 0.0)
        if rng.random() < 0.3:
            head = queue.head()
            assert head is not None
            queue.start(head, 10.0)
            live.append(head)
    rng.shuffle(tickets)
    for ticket in tickets:
        if ticket in live:
            queue.settle(ticket, rng.choice([0.0, 5.0, 20.0]))
        queue.discard(ticket)
    assert len(queue) == 0
    assert queue.head() is None
    assert all((s.queued, s.live, s.active) == (0, 0, False) for s in queue.tenants().values())
    assert all(debt <= 0.0 for debt in queue.debts)
    assert all(child.open == 0.0 for node in branches(queue) for child in node.children.values())


def test_settling_twice_books_once():
    """The end of a call is booked once; what streams in or is settled after that changes nothing."""
    queue, (ticket,) = filled(("a", STANDARD))
    queue.start(ticket, 10.0)
    queue.charge(ticket, 5.0)
    assert (ticket.charge, queue.tenants()["a"].service) == (15.0, 15.0)
    queue.settle(ticket, 12.0)
    queue.settle(ticket, 99.0)
    queue.charge(ticket, 99.0)
    share = queue.tenants()["a"]
    assert (share.service, share.live, ticket.charge) == (12.0, 0, 12.0)


def test_a_call_is_queued_once():
    """Queueing a call that is queued or in flight, or starting one that is not queued, is a caller's mistake."""
    queue, (ticket,) = filled(("a", STANDARD))
    with pytest.raises(AssertionError, match="already queued"):
        queue.push(ticket, 1.0)
    queue.start(ticket, 1.0)
    with pytest.raises(AssertionError, match="in flight"):
        queue.push(ticket, 1.0)
    with pytest.raises(AssertionError, match="only a queued call"):
        queue.start(ticket, 1.0)
    assert len(queue) == 0


def test_stale_entries_do_not_pile_up():
    """Whatever parks, leaves and is refunded, heaps stay within a small multiple of what is live."""
    rng = random.Random(1)
    queue, waiting = filled(*[(rng.choice("abcdefgh"), STANDARD) for _ in range(200)])
    for seq in range(1000, 6000):
        tenant = rng.choice("abcdefgh")
        queue.park(tenant)
        queue.unpark(tenant)
        ticket = Ticket(seq=seq, tenant=tenant)
        queue.push(ticket, float(seq))
        waiting.append(ticket)
        head = queue.head()
        assert head is not None
        queue.start(head, 100.0)
        waiting.remove(head)
        queue.settle(head, 1.0)
        if seq % 2:
            queue.discard(waiting.pop(rng.randrange(len(waiting))))
            queue.push(again := Ticket(seq=seq + 10_000, tenant=tenant), float(seq))
            waiting.append(again)
    for node in branches(queue):
        assert len(node._heap) <= 3 * node.active + 20
        for job in node.children.values():
            if hasattr(job, "calls"):
                assert len(job.calls) <= 3 * job.queued + 20


def test_stale_entries_that_never_surface_do_not_pile_up():
    """A tenant far ahead that parks and comes back a thousand times leaves no thousand entries behind the head."""
    queue, _ = filled(("low", STANDARD), *[("high", STANDARD)] * 2)
    queue.park("low")
    serve(queue, 1000.0)
    queue.unpark("low")
    for _ in range(1000):
        queue.park("high")
        queue.unpark("high")
    assert len(queue._trees[STANDARD]._heap) <= 30


def test_cancelled_calls_do_not_pile_up_behind_the_head():
    """When a thousand calls leave from behind a waiting head, their tombstones go too."""
    queue, tickets = filled(*[("a", STANDARD)] * 1000)
    for ticket in tickets[1:]:
        queue.discard(ticket)
    (job,) = queue._trees[STANDARD].children["a"].children.values()
    assert len(job.calls) <= 30
    assert list(queue.candidates()) == tickets[:1]


def test_passing_flows_are_forgotten():
    """Twenty thousand tenants and jobs that each make one call leave a bounded number of nodes behind."""
    queue = FairQueue(FairConfig())
    for seq in range(10_000):
        queue.push(Ticket(seq=seq, tenant=f"t{seq}"), 0.0)
        queue.push(Ticket(seq=100_000 + seq, tenant="one", job=f"j{seq}"), 0.0)
        serve(queue)
        serve(queue)
    assert all(len(node.children) <= 2 * IDLE_KEPT + 64 for node in branches(queue))


def test_forgetting_a_flow_that_V_has_passed_changes_nothing():
    """An idle tenant below V is forgotten; coming back it stands where it would have stood anyway."""
    places = []
    for sweep in (False, True):
        queue = FairQueue(FairConfig())
        queue.push(Ticket(seq=0, tenant="visitor"), 0.0)
        serve(queue)
        for seq in range(1, 60):
            queue.push(Ticket(seq=seq, tenant="busy"), 0.0)
        for _ in range(40):
            serve(queue)
        if sweep:
            queue._trees[STANDARD].sweep(queue.credit)
            assert "visitor" not in queue.tenants()
        for seq in range(100, 110):
            queue.push(Ticket(seq=seq, tenant="visitor"), 0.0)
        places.append([serve(queue).tenant for _ in range(20)])
    assert places[0] == places[1]


@pytest.mark.parametrize(
    ("field", "config"),
    [
        ("minimum_share", {"minimum_share": math.nan}),
        ("minimum_share", {"minimum_share": -0.1}),
        ("minimum_share", {"minimum_share": 0.4}),
        ("credit_calls", {"credit_calls": math.nan}),
        ("credit_calls", {"credit_calls": -1.0}),
        ("overtaking", {"overtaking": math.inf}),
        ("put_back", {"put_back": -1.0}),
        ("order", {"order": "random"}),
        ("weights.a", {"weights": {"a": 0.0}}),
        ("weights.a", {"weights": {"a": math.nan}}),
        ("job_weights.a/x", {"job_weights": {"a/x": math.inf}}),
    ],
)
def test_nonsense_configuration_is_refused(field: str, config: dict[str, Any]):
    """A value that makes no sense is refused, and the message names the field."""
    with pytest.raises(InvalidLimits) as caught:
        FairConfig(**config)
    assert caught.value.field == field


def test_nonsense_weights_are_refused_live():
    """A live change to a weight that makes no sense is refused and changes nothing."""
    queue, _ = filled(("a", STANDARD))
    with pytest.raises(InvalidLimits):
        queue.set_weight("a", math.nan)
    with pytest.raises(InvalidLimits):
        queue.set_job_weight("a", "", 0.0)
    assert queue.tenants()["a"].weight == 1.0
