"""The fair queue against a reference that writes the same rules down without any data structure."""

from math import isclose
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.port import Priority
from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.ticket import Ticket
from tests.policy.naive_fair import Naive

# powers of two, so that both sides round alike
SERVICE = st.integers(1, 64).map(lambda n: n * 16.0)
TENANTS = st.sampled_from(["a", "b", "c"])
JOBS = st.sampled_from(["x", "y"])


class Comparison(RuleBasedStateMachine):
    """Plays the same steps on both and compares all that can be seen after each."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue(FairConfig(minimum_share=0.0625, credit_calls=0.5))
        self.naive = Naive(share=0.0625, credit_calls=0.5)
        self.retrying: list[Ticket] = []
        self.seq = 0
        self.now = 0.0
        self.virtual = self.queue.virtual_times

    def pick(self, data: Any, tickets: Any) -> Ticket:
        return data.draw(st.sampled_from(sorted(tickets, key=lambda t: t.seq)))  # type: ignore[no-any-return]

    @rule(tenant=TENANTS, job=JOBS, run=st.sampled_from(["", "r", "s"]), priority=st.sampled_from(Priority))
    def push(self, tenant: str, job: str, run: str, priority: Priority) -> None:
        self.seq += 1
        self.now += 1.0
        ticket = Ticket(seq=self.seq, tenant=tenant, job=job, run=run, priority=priority)
        self.queue.push(ticket, self.now)
        self.naive.push(ticket, self.now)

    @precondition(lambda self: self.retrying)
    @rule(data=st.data())
    def push_again(self, data: Any) -> None:
        ticket = self.pick(data, self.retrying)
        self.retrying.remove(ticket)
        self.now += 1.0
        self.queue.push(ticket, self.now)
        self.naive.push(ticket, self.now)

    @precondition(lambda self: self.naive.waiting)
    @rule(data=st.data())
    def discard(self, data: Any) -> None:
        ticket = self.pick(data, self.naive.waiting)
        self.queue.discard(ticket)
        self.naive.discard(ticket)

    @rule(charge=SERVICE)
    def start_head(self, charge: float) -> None:
        ticket = self.queue.head()
        if ticket is not None:
            self.queue.start(ticket, charge)
            self.naive.start(ticket, charge)

    @precondition(lambda self: self.naive.order())
    @rule(data=st.data(), charge=SERVICE)
    def start_another(self, data: Any, charge: float) -> None:
        ticket = self.pick(data, self.naive.order())
        self.queue.start(ticket, charge)
        self.naive.start(ticket, charge)

    @precondition(lambda self: self.naive.flying)
    @rule(data=st.data(), more=SERVICE)
    def stream(self, data: Any, more: float) -> None:
        ticket = self.pick(data, [t for t, _ in self.naive.flying.values()])
        self.queue.charge(ticket, more)
        self.naive.charge(ticket, more)

    @precondition(lambda self: self.naive.flying)
    @rule(data=st.data(), actual=st.just(0.0) | SERVICE, seconds=st.floats(0.0, 2000.0), again=st.booleans())
    def settle(self, data: Any, actual: float, seconds: float, again: bool) -> None:
        ticket = self.pick(data, [t for t, _ in self.naive.flying.values()])
        self.queue.settle(ticket, actual, seconds)
        self.queue.settle(ticket, 1e9, 1e9)  # a second one changes nothing
        self.naive.settle(ticket, actual, seconds)
        if again:
            self.retrying.append(ticket)

    @rule(tenant=TENANTS)
    def park(self, tenant: str) -> None:
        self.queue.park(tenant)
        self.naive.park(tenant)

    @rule(tenant=TENANTS)
    def unpark(self, tenant: str) -> None:
        self.queue.unpark(tenant)
        self.naive.unpark(tenant)

    @rule(tenant=TENANTS, job=st.none() | JOBS, weight=st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    def reweigh(self, tenant: str, job: str | None, weight: float) -> None:
        if job is None:
            self.queue.set_weight(tenant, weight)
            self.naive.reweigh((tenant,), weight)
        else:
            self.queue.set_job_weight(tenant, job, weight)
            self.naive.reweigh((tenant, job), weight)

    @invariant()
    def same_order(self) -> None:
        expected = self.naive.order()
        assert list(self.queue.candidates()) == expected
        assert self.queue.head() is (expected[0] if expected else None)

    @invariant()
    def same_counts(self) -> None:
        assert len(self.queue) == len(self.naive.waiting)
        for name, share in self.queue.tenants().items():
            assert share.queued == sum(t.tenant == name for t in self.naive.waiting)
            assert share.live == sum(t.tenant == name for t, _ in self.naive.flying.values())

    @invariant()
    def same_counters(self) -> None:
        for tree, priority in zip(self.queue._trees, Priority, strict=True):
            for tenant in tree.children.values():
                path = (priority.name, tenant.name)
                assert isclose(tenant.counter, self.naive.counter.get(path, 0.0), abs_tol=1e-6)
                for job in tenant.children.values():
                    assert isclose(job.counter, self.naive.counter[(*path, job.name)], abs_tol=1e-6)

    @invariant()
    def same_debts(self) -> None:
        assert self.queue.debts == tuple(self.naive.debt[p] for p in Priority)

    @invariant()
    def virtual_time_never_goes_back(self) -> None:
        before, self.virtual = self.virtual, self.queue.virtual_times
        assert all(now >= then for now, then in zip(self.virtual, before, strict=True))


Comparison.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


class TestR30AgainstTheReference(Comparison.TestCase):
    """Shows that order, counts and debts equal the plain reference's after every step, and that V never goes back."""
