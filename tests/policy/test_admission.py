"""Who may wait, and who has to go."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits, QueueFull, TooLarge
from agents.port import Priority
from orchestrator.policy.admission import ADMITTED, Admission, AdmissionConfig, Admitted
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.waiting import Waiting
from tests.policy.callers import SMALL, Callers, admit_all


@pytest.fixture
def make() -> Callers:
    return Callers()


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


def test_S05_nonsense_caps_name_their_field() -> None:
    """NaN and negative caps are refused with a message that names the field."""
    with pytest.raises(InvalidLimits, match=r"admission\.calls: must be at least 0"):
        AdmissionConfig(calls=-1)
    with pytest.raises(InvalidLimits, match=r"admission\.retry_after_at_most: must be a number"):
        AdmissionConfig(retry_after_at_most=math.nan)
