"""What a call waited for, told afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.policy.accounts import NAMES, OTHERS, Accounts
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.waits import FAIR_ORDER, MOMENT, RETRY, SPANS, TENANT_LIMIT, Holds, Reasons

OBSTACLES = st.sampled_from(["", "requests/min", "calls in flight", "breaker"])
STEPS = st.lists(st.tuples(st.integers(0, 3), OBSTACLES), max_size=40)
"""Whole seconds from one change to the next, so that sums are exact."""


class Queue:
    """Reasons with the accounts they need, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reasons = Reasons(0.0)
        self.accounts = Accounts()

    def join(self, tenant: str) -> Ticket:
        ticket = Ticket(seq=0, tenant=tenant, arrived=self.now)
        ticket.account = self.accounts.of(tenant)
        ticket.own_before, ticket.all_before = ticket.account.sent, self.accounts.sent
        ticket.eligible_since = self.now
        return ticket

    def send(self, tenant: str, service: float = 1.0) -> None:
        self.accounts.of(tenant).sent += service
        self.accounts.sent += service

    def leave(self, ticket: Ticket) -> dict[str, float]:
        self.reasons.queued(ticket, self.accounts.sent, self.now)
        return dict(ticket.waits)


@given(STEPS, st.data())
def test_any_span_is_what_each_of_its_seconds_was(steps: list[tuple[int, str]], data: st.DataObject) -> None:
    """Told from any time on, the sums are those of the seconds in which each obstacle held."""
    holds, seconds, now, what = Holds(0.0), list[str](), 0, ""
    for later, then in steps:
        seconds += [what] * later
        now += later
        what = then
        holds.note(what, float(now))
    seconds += [what] * 5
    since = data.draw(st.integers(0, now + 4))
    told = holds.between(float(since), float(now + 5))
    wanted = {name: seconds[since:].count(name) for name in set(seconds[since:])}
    assert told == pytest.approx(wanted)


events = st.lists(
    st.tuples(
        st.floats(0.0, 3.0),
        st.one_of(
            st.tuples(st.just("holds"), OBSTACLES),
            st.tuples(st.just("parked"), st.sampled_from(["tokens/min", "requests/min", ""])),
            st.tuples(st.just("sent"), st.sampled_from(["blue", "red"])),
            st.tuples(st.just("join"), st.sampled_from(["blue", "red"])),
            st.tuples(st.just("retry"), st.just("")),
        ),
    ),
    max_size=60,
)


@given(events)
def test_the_parts_of_a_wait_are_the_whole_of_it(steps: list[tuple[float, tuple[str, str]]]) -> None:
    """Whatever happens in whatever order, each call's parts add up to its wait, and all of them to the sums kept."""
    queue, waiting, total = Queue(), [], 0.0
    for later, (what, name) in steps:
        queue.now += later
        if what == "holds":
            queue.reasons.backend.note(name, queue.now)
        elif what == "parked":
            if name:
                queue.reasons.parked("blue", name, queue.now)
            else:
                queue.reasons.released("blue", queue.now)
        elif what == "sent":
            queue.send(name)
        elif what == "join":
            waiting.append(queue.join(name))
        elif waiting:
            # as many attempts as one likes, and what is between them
            ticket = waiting[-1]
            queue.leave(ticket)
            ticket.eligible_since = queue.now
            queue.now += 1.0
            queue.reasons.between_attempts(ticket, queue.now)
            ticket.eligible_since = queue.now
            ticket.own_before, ticket.all_before = ticket.account.sent, queue.accounts.sent
    for ticket in waiting:
        queue.leave(ticket)
        waited = sum(seconds for _, seconds in ticket.waits)
        # a moment in each of the attempts of this many steps counts as none
        assert waited == pytest.approx(queue.now - ticket.arrived, abs=1e-6 + MOMENT * len(steps))
        assert all(seconds > 0.0 for _, seconds in ticket.waits)
        assert list(ticket.waits) == sorted(ticket.waits, key=lambda part: -part[1])
        assert len({name for name, _ in ticket.waits}) == len(ticket.waits)
        total += waited
    assert sum(queue.reasons.held_seconds.values()) == pytest.approx(total)
    assert not any("blue" in name for name in queue.reasons.held_seconds)


def test_room_that_others_got_was_their_turn() -> None:
    """Of a wait under a limit the part in which others were sent is the order's, the own tenant's part the limit's."""
    queue = Queue()
    queue.reasons.backend.note("requests/min", 0.0)
    blue, red, alone = queue.join("blue"), queue.join("red"), queue.join("green")
    queue.now = 10.0
    for _ in range(3):
        queue.send("blue")
    queue.send("red")
    assert queue.leave(blue) == pytest.approx({"requests/min": 7.5, FAIR_ORDER: 2.5})
    assert queue.leave(red) == pytest.approx({"requests/min": 2.5, FAIR_ORDER: 7.5})
    assert queue.leave(alone) == pytest.approx({FAIR_ORDER: 10.0})


def test_a_tenant_alone_waits_for_the_limit() -> None:
    """Where only the call's own tenant was sent, or nobody, the limit has the whole wait."""
    queue = Queue()
    queue.reasons.backend.note("calls in flight", 0.0)
    first, second = queue.join("blue"), queue.join("blue")
    queue.now = 4.0
    assert queue.leave(first) == {"calls in flight": 4.0}
    queue.send("blue")
    assert queue.leave(second) == {"calls in flight": 4.0}


def test_an_outage_is_nobodys_turn() -> None:
    """A broken endpoint has the time for which it was broken, whoever goes first once it is back."""
    queue = Queue()
    queue.reasons.backend.note("breaker", 0.0)
    ticket = queue.join("blue")
    queue.now = 60.0
    queue.send("red")
    assert queue.leave(ticket) == {"breaker": 60.0}


def test_a_tenants_own_limit_goes_before_the_backends() -> None:
    """While a tenant is parked its own limit held it; the rest is divided as the backend was held all the while."""
    queue = Queue()
    blue, red = queue.join("blue"), queue.join("red")
    queue.reasons.backend.note("requests/min", 2.0)
    queue.reasons.parked("blue", "tokens/min", 4.0)
    queue.reasons.released("blue", 8.0)
    queue.now = 8.0
    assert queue.leave(blue) == pytest.approx({FAIR_ORDER: 1.0, "requests/min": 3.0, "tenant tokens/min": 4.0})
    assert queue.leave(red) == pytest.approx({FAIR_ORDER: 2.0, "requests/min": 6.0})
    assert queue.reasons.held_seconds[TENANT_LIMIT] == 4.0


def test_a_dispatch_in_the_middle_does_not_end_what_holds() -> None:
    """A limit that is found to hold again and again has held all the while, as one change."""
    holds = Holds(0.0)
    for second in range(1, 100_000):
        holds.note("", float(second))
        holds.note("requests/min", float(second))
    assert len(holds) == 2
    assert holds.between(0.0, 100_000.0) == {"": 1.0, "requests/min": 99_999.0}


def test_what_is_remembered_is_bounded_and_gets_coarse_with_age() -> None:
    """After any number of changes at most `SPANS` are kept; a long wait is told whole, and about as it was."""
    holds, end = Holds(0.0), 50 * SPANS
    for second in range(1, end):
        holds.note("breaker" if second % 2 else "", float(second))
        assert len(holds) <= SPANS
    for waited in (0.5, 3.0, 100.0, end / 2 + 0.25, end / 1):
        told = holds.between(end - waited, float(end))
        assert sum(told.values()) == pytest.approx(waited)
    half = holds.between(end / 2 + 0.25, float(end))
    assert half["breaker"] == pytest.approx(end / 4, rel=0.01)


def test_a_moment_has_no_reason() -> None:
    """A call that goes at once costs nothing, and says nothing."""
    queue = Queue()
    ticket = queue.join("blue")
    queue.now = MOMENT
    assert queue.leave(ticket) == {}
    assert ticket.waits == ()


def test_attempts_add_up() -> None:
    """Waits of several attempts and those between them are told together, most first."""
    queue = Queue()
    queue.reasons.backend.note("breaker", 0.0)
    ticket = queue.join("blue")
    queue.now = 2.0
    queue.leave(ticket)
    ticket.eligible_since, queue.now = 2.0, 7.0
    queue.reasons.between_attempts(ticket, queue.now)
    ticket.eligible_since, queue.now = 7.0, 8.0
    queue.leave(ticket)
    assert ticket.waits == ((RETRY, 5.0), ("breaker", 3.0))


def test_a_flood_of_names_leaves_few_accounts() -> None:
    """Of a hundred thousand invented tenants those that came first have accounts; the others share one, in all."""
    accounts = Accounts()
    for number in range(100_000):
        accounts.of(f"name-{number}").ended(1.0)
    assert len(accounts.services()) == NAMES + 1
    assert accounts.services()[OTHERS] == 100_000 - NAMES


def test_a_stranger_costs_what_the_others_do() -> None:
    """A tenant's calls cost what its last ones did; those of one that had no answer yet are taken for the mean."""
    accounts = Accounts()
    for _ in range(200):
        accounts.of("blue").ended(1.0)
    for _ in range(200):
        accounts.of("blue").ended(5.0)
    accounts.of("red").ended(3.0)
    costs = accounts.costs()
    assert costs.of("blue") == pytest.approx(5.0, rel=0.01)
    assert (costs.of("red"), costs.of("a stranger")) == (3.0, pytest.approx(4.0, rel=0.01))
    assert Accounts().costs().of("blue") == 0.0


def test_a_call_that_still_waits_is_told_the_same_and_nothing_is_booked() -> None:
    """Asked in the middle, a call's parts are what they would be if it left now, and it waits on as before."""
    queue = Queue()
    ticket = queue.join("blue")
    queue.reasons.backend.note("breaker", 0.0)
    queue.now = 40.0
    assert queue.reasons.so_far(ticket, queue.accounts.sent, queue.now) == (("breaker", 40.0),)
    assert queue.reasons.held_seconds == {}
    assert ticket.waits == ()
    assert queue.leave(ticket) == {"breaker": 40.0}
