"""When to come back, and whether a deadline can still be met."""

import math

import pytest

from agents.errors import QueueFull, QueueTimeout, Refused
from agents.port import Priority
from orchestrator.policy.admission import ADMITTED, Admission, AdmissionConfig
from orchestrator.policy.waiting import UNKNOWN_WAIT, Waiting
from tests.policy.callers import SMALL, Callers, admit_all


@pytest.fixture
def make() -> Callers:
    return Callers()


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


@pytest.mark.parametrize("before", [0, 100])
def test_an_outage_teaches_nothing_about_the_full_rate(before: int, make: Callers) -> None:
    """Minutes in which nothing is served, after a good time or from the start, make no deadline look hopeless."""
    admission, now = Admission(AdmissionConfig()), 0.0
    queue = admit_all(admission, (make(work=100.0) for _ in range(200)))
    for _ in range(before):
        now += 1.0
        admission.release(queue.pop(0), now, sent=True)
    now += 600.0
    assert admission.admit(make(deadline=now + 110.0), now) is ADMITTED


@pytest.mark.parametrize("deadline", [math.inf, 1e308])
def test_S05_a_deadline_far_away_is_as_good_as_none(deadline: float, make: Callers) -> None:
    """Infinity means none, and a huge number is only far away: neither ends a call."""
    assert Admission(AdmissionConfig()).admit(make(deadline=deadline), 100.0) is ADMITTED


def test_S05_a_deadline_of_nan_is_refused_with_a_message(make: Callers) -> None:
    """NaN compares as never due, so a call that carries it ends with a message."""
    error = Admission(SMALL).admit(make(deadline=math.nan), 0.0)
    assert isinstance(error, Refused)
    assert error.code == "invalid_deadline"
