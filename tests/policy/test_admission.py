"""Who may wait, who has to go, and when to come back."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits, QueueFull, QueueTimeout, Refused, TooLarge
from agents.port import Priority
from orchestrator.policy.admission import ADMITTED, Admission, AdmissionConfig, Admitted, check_deadline
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.waiting import UNKNOWN_WAIT, Waiting

SMALL = AdmissionConfig(tenant_calls=4, tenant_bytes=4_000, calls=10, bytes=10_000)


class Callers:
    """Makes tickets with rising numbers; each is 100 weighted tokens of work and 100 bytes unless said otherwise."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(
        self,
        tenant: str = "a",
        priority: Priority = Priority.STANDARD,
        *,
        agent: bool = False,
        bytes: int = 100,
        deadline: float = math.inf,
        work: float = 100.0,
    ) -> Ticket:
        self.made += 1
        return Ticket(
            seq=self.made,
            tenant=tenant,
            priority=priority,
            agent=agent,
            bytes=bytes,
            deadline=deadline,
            input=work,
        )


@pytest.fixture
def make() -> Callers:
    return Callers()


def admit_all(admission: Admission, tickets: Iterable[Ticket], now: float = 0.0) -> list[Ticket]:
    held = list(tickets)
    for ticket in held:
        assert admission.admit(ticket, now) is ADMITTED
    return held


def test_a_tenant_at_its_cap_is_refused_and_others_are_not(make: Callers) -> None:
    """The fifth call of a tenant that may have four waiting is refused by name; another tenant's call is not."""
    admission = Admission(SMALL)
    held = admit_all(admission, (make() for _ in range(4)))
    error = admission.admit(make(), 0.0)
    assert isinstance(error, QueueFull)
    assert "tenant 'a' has as many calls waiting as allowed" in error.message
    assert admission.admit(make("b"), 0.0) is ADMITTED
    admission.release(held[0], 1.0, sent=True)
    assert admission.admit(make(), 1.0) is ADMITTED


def test_bytes_are_capped_too(make: Callers) -> None:
    """Two large calls fill a tenant's bytes although four calls are allowed."""
    admission = Admission(SMALL)
    admit_all(admission, [make(bytes=2_000), make(bytes=1_500)])
    assert isinstance(admission.admit(make(bytes=600), 0.0), QueueFull)
    assert admission.admit(make(bytes=500), 0.0) is ADMITTED


def test_a_call_that_could_never_fit_is_too_large(make: Callers) -> None:
    """A call with more bytes than may ever wait is told so, not to come back."""
    assert isinstance(Admission(SMALL).admit(make(bytes=4_001), 0.0), TooLarge)


def test_all_tenants_together_are_capped(make: Callers) -> None:
    """The eleventh call is refused for the cap on all, though its own tenant has nothing waiting."""
    admission = Admission(SMALL)
    admit_all(admission, (make(tenant) for tenant in "aabbccddee"))
    error = admission.admit(make("f"), 0.0)
    assert isinstance(error, QueueFull)
    assert "all tenants together" in error.message


def test_agents_are_exempt_and_take_no_room(make: Callers) -> None:
    """Any number of agents' calls is admitted, also when HTTP callers fill the queue, and takes none of their room."""
    admission = Admission(SMALL)
    admit_all(admission, (make(agent=True) for _ in range(500)))
    admit_all(admission, (make() for _ in range(4)))
    assert admission.admit(make(agent=True), 0.0) is ADMITTED
    assert isinstance(admission.admit(make(), 0.0), QueueFull)


def test_at_a_tenants_cap_a_higher_priority_evicts_its_newest_batch_call(make: Callers) -> None:
    """The newest batch call of the same tenant goes, with an honest error; older and more urgent ones stay."""
    admission = Admission(SMALL)
    old, new, urgent, other = admit_all(
        admission,
        [make("a", Priority.BATCH), make("a", Priority.BATCH), make("a", Priority.INTERACTIVE), make("a")],
    )
    verdict = admission.admit(make(), 0.0)
    assert isinstance(verdict, Admitted)
    assert [evicted.ticket for evicted in verdict.evicted] == [new]
    assert isinstance(verdict.evicted[0].error, QueueFull)
    assert verdict.evicted[0].error.retry_after >= 1.0
    assert admission.waiting("a").http_calls == 4
    for ticket in (old, urgent, other):
        admission.release(ticket, 0.0, sent=False)
    assert admission.waiting("a").http_calls == 1


def test_batch_evicts_nobody(make: Callers) -> None:
    """A batch call that meets a full queue is refused even where other batch calls wait."""
    admission = Admission(SMALL)
    admit_all(admission, (make("a", Priority.BATCH) for _ in range(4)))
    assert isinstance(admission.admit(make("a", Priority.BATCH), 0.0), QueueFull)


def test_agents_and_calls_that_were_sent_once_are_never_evicted(make: Callers) -> None:
    """Neither an agent's batch call nor a batch call that waits for its retry makes room for anybody."""
    admission = Admission(SMALL)
    admit_all(admission, (make("a", Priority.BATCH, agent=True) for _ in range(4)))
    retried = admit_all(admission, (make("a", Priority.BATCH) for _ in range(4)))
    for ticket in retried:
        admission.release(ticket, 0.0, sent=True)
        admission.rejoin(ticket, 0.0)
    assert isinstance(admission.admit(make("a", Priority.INTERACTIVE), 0.0), QueueFull)


def test_at_the_global_cap_the_tenant_with_most_bytes_per_weight_gives_way(make: Callers) -> None:
    """Of two tenants with batch calls the one with more bytes for its weight loses its newest, whoever arrives."""
    admission = Admission(SMALL, weight=lambda tenant: 10.0 if tenant == "heavy" else 1.0)
    admit_all(admission, [make("heavy", Priority.BATCH, bytes=900) for _ in range(4)])
    light = admit_all(admission, [make("light", Priority.BATCH, bytes=400) for _ in range(4)])
    admit_all(admission, [make("c"), make("d")])
    verdict = admission.admit(make("e", Priority.INTERACTIVE), 0.0)
    assert isinstance(verdict, Admitted)
    assert [evicted.ticket for evicted in verdict.evicted] == [light[-1]]


def test_a_large_call_takes_the_place_of_several_or_of_none(make: Callers) -> None:
    """As many batch calls go as the bytes of the new call need; where all would not be enough none goes."""
    admission = Admission(SMALL)
    held = admit_all(admission, [make("a", Priority.BATCH, bytes=1_000) for _ in range(3)])
    stays = admit_all(admission, [make("a", bytes=1_000)])
    verdict = admission.admit(make("a", bytes=2_000), 0.0)
    assert isinstance(verdict, Admitted)
    assert [evicted.ticket for evicted in verdict.evicted] == [held[2], held[1]]
    admission.release(stays[0], 0.0, sent=True)
    refused = admission.admit(make("a", bytes=3_500), 0.0)
    assert isinstance(refused, QueueFull)
    assert admission.waiting("a") == Waiting(2, 3_000, 1, 1_000, 2, 200.0)


def test_release_counts_once(make: Callers) -> None:
    """Releasing a call twice, or one that was never admitted or was evicted, changes nothing."""
    admission = Admission(SMALL)
    (ticket,) = admit_all(admission, [make()])
    for _ in range(3):
        admission.release(ticket, 0.0, sent=True)
    admission.release(make(), 0.0, sent=False)
    assert admission.all == Waiting()
    assert admission.tenants() == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(list(Priority)),
            st.booleans(),
            st.integers(0, 4_500),
            st.sampled_from(["admit", "admit", "send", "leave", "retry"]),
            st.integers(0, 50),
        ),
        max_size=80,
    )
)
def test_every_history_ends_with_every_counter_at_zero(
    steps: list[tuple[str, Priority, bool, int, str, int]],
) -> None:
    """Caps hold at every arrival, only HTTP batch calls are evicted, and when all have left nothing is counted."""
    admission, make, now = Admission(SMALL), Callers(), 0.0
    held: dict[int, Ticket] = {}
    for tenant, priority, agent, size, what, which in steps:
        now += 0.25
        if what == "admit":
            ticket = make(tenant, priority, agent=agent, bytes=size)
            verdict = admission.admit(ticket, now)
            if isinstance(verdict, Admitted):
                held[ticket.seq] = ticket
                for evicted in verdict.evicted:
                    gone = held.pop(evicted.ticket.seq)
                    assert gone.priority is Priority.BATCH
                    assert not gone.agent
                    assert gone.priority > priority
                assert agent or admission.waiting(tenant).http_calls <= SMALL.tenant_calls
                assert agent or admission.all.http_bytes <= SMALL.bytes
            else:
                assert not agent
        elif held:
            ticket = list(held.values())[which % len(held)]
            if what == "retry":
                admission.release(ticket, now, sent=True)
                admission.rejoin(ticket, now)
            else:
                admission.release(ticket, now, sent=what == "send")
                del held[ticket.seq]
        waiting = [ticket for ticket in held.values() if not ticket.agent]
        assert admission.all.http_calls == len(waiting)
        assert admission.all.http_bytes == sum(ticket.bytes for ticket in waiting)
        assert admission.all.calls == len(waiting)
    for ticket in held.values():
        admission.release(ticket, now, sent=False)
    assert admission.all == Waiting()
    assert admission.tenants() == {}


def test_retry_after_is_unknown_work_over_no_rate(make: Callers) -> None:
    """Before anything was served the wait named is a plain guess, and a queue that stands still names the longest."""
    admission = Admission(SMALL)
    admit_all(admission, (make() for _ in range(4)))
    assert admission.retry_after("a", 0.0) == UNKNOWN_WAIT
    assert admission.retry_after("a", 60.0) == 120.0


def test_retry_after_is_at_least_a_second(make: Callers) -> None:
    """Where room is expected within milliseconds the caller is still told a whole second."""
    admission = Admission(SMALL)
    admission.drain.full_rate = 1e6
    admit_all(admission, (make() for _ in range(4)))
    assert admission.retry_after("a", 0.0) == 1.0


def test_retry_after_comes_true(make: Callers) -> None:
    """At a steady rate the named wait for a full queue of large calls is the time in which room really appears."""
    config = AdmissionConfig(tenant_calls=20)
    admission, now = Admission(config), 0.0
    queue = admit_all(admission, (make(work=1_000.0) for _ in range(20)))
    for _ in range(100):
        now += 5.0
        admission.release(queue.pop(0), now, sent=True)
        queue += admit_all(admission, [make(work=1_000.0)], now)
    error = admission.admit(make(), now)
    assert isinstance(error, QueueFull)
    assert error.retry_after == pytest.approx(5.0, rel=0.1)


def test_retry_after_follows_the_tenants_share(make: Callers) -> None:
    """Of two tenants with equal queues the one served three times as fast is told a third of the wait."""
    config = AdmissionConfig(tenant_calls=100)
    admission, now = Admission(config, weight=lambda tenant: 3.0 if tenant == "fast" else 1.0), 0.0
    queues = {name: admit_all(admission, (make(name, work=2_000.0) for _ in range(100))) for name in ("fast", "slow")}
    for turn in range(200):
        now += 2.0
        name = "slow" if turn % 4 == 3 else "fast"
        admission.release(queues[name].pop(0), now, sent=True)
        queues[name] += admit_all(admission, [make(name, work=2_000.0)], now)
    fast, slow = (admission.retry_after(name, now) for name in ("fast", "slow"))
    assert slow / fast == pytest.approx(3.0, rel=0.2)


def test_bytes_beyond_the_cap_lengthen_the_wait(make: Callers) -> None:
    """A large call has to wait for more of its tenant's queue to drain than a small one."""
    config = AdmissionConfig(tenant_bytes=10_000)
    admission = Admission(config)
    admission.drain.full_rate = 100.0
    admit_all(admission, (make(bytes=1_000) for _ in range(10)))
    assert admission.retry_after("a", 0.0, bytes=5_000) == pytest.approx(5.0)
    assert admission.retry_after("a", 0.0, bytes=1_000) == pytest.approx(1.0)


def test_a_deadline_that_has_passed_is_refused(make: Callers) -> None:
    """A call whose deadline lies before its arrival ends as a timeout in the queue, agent or not."""
    admission = Admission(SMALL)
    for agent in (False, True):
        assert isinstance(admission.admit(make(deadline=99.0, agent=agent), 100.0), QueueTimeout)
    assert admission.all == Waiting()


def test_a_deadline_is_refused_only_if_own_earlier_work_misses_it(make: Callers) -> None:
    """The tenant's own work at full rate decides; the work of others and of lower priorities does not count."""
    admission = Admission(AdmissionConfig())
    admission.drain.full_rate = 100.0
    admit_all(admission, (make("other", work=10_000.0) for _ in range(50)))
    admit_all(admission, [make("a", Priority.BATCH, work=10_000.0)])
    admit_all(admission, [make("a", Priority.STANDARD, work=2_000.0)])
    assert admission.admit(make(deadline=20.5), 0.0) is ADMITTED
    error = admission.admit(make(deadline=20.5), 0.0)
    assert isinstance(error, QueueTimeout)
    assert "21.0 s of earlier work" in error.message
    assert admission.admit(make(priority=Priority.INTERACTIVE, deadline=0.5), 0.0) is ADMITTED


def test_without_a_known_rate_no_deadline_is_given_up(make: Callers) -> None:
    """Where nobody knows how fast the backend could be, every deadline is taken as it comes."""
    admission = Admission(AdmissionConfig())
    admit_all(admission, (make(work=1e9) for _ in range(10)))
    assert admission.admit(make(deadline=0.001), 0.0) is ADMITTED


def test_a_long_backlog_teaches_a_rate_that_deadlines_are_held_against(make: Callers) -> None:
    """After a minute of backlog twice the measured rate counts as full: a hopeless deadline is refused at once."""
    admission, now = Admission(AdmissionConfig()), 0.0
    queue = admit_all(admission, (make(work=100.0) for _ in range(200)))
    for _ in range(100):
        now += 1.0
        admission.release(queue.pop(0), now, sent=True)
    assert isinstance(admission.admit(make(deadline=now + 40.0), now), QueueTimeout)
    assert admission.admit(make(deadline=now + 60.0), now) is ADMITTED


@pytest.mark.parametrize(("seconds", "deadline"), [(5.0, 105.0), (math.inf, math.inf), (-1.0, 99.0), (1e308, 1e308)])
def test_S05_a_deadline_is_a_number_of_seconds(seconds: float, deadline: float) -> None:
    """Infinity means none, a negative number lies in the past, and a huge one is only far away."""
    assert check_deadline(seconds, 100.0) == deadline


def test_S05_a_deadline_of_nan_is_refused_with_a_message(make: Callers) -> None:
    """NaN is refused where it enters, and a call that carries it all the same ends with a message."""
    with pytest.raises(InvalidLimits, match="deadline: must be a number of seconds, not NaN"):
        check_deadline(math.nan, 100.0)
    error = Admission(SMALL).admit(make(deadline=math.nan), 0.0)
    assert isinstance(error, Refused)
    assert error.code == "invalid_deadline"


def test_S05_nonsense_caps_name_their_field() -> None:
    """NaN and negative caps are refused with a message that names the field."""
    with pytest.raises(InvalidLimits, match=r"admission\.calls: must be at least 0"):
        AdmissionConfig(calls=-1)
    with pytest.raises(InvalidLimits, match=r"admission\.retry_after_at_most: must be a number"):
        AdmissionConfig(retry_after_at_most=math.nan)
