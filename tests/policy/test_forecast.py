"""What is foretold of a queue's end, against a queue that is drained call by call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.policy.forecast import Backlog, Expected, forecast
from orchestrator.policy.pace import STEP, STEPS, Pace

backlogs = st.lists(
    st.builds(
        Backlog,
        priority=st.integers(0, 2),
        calls=st.integers(1, 30),
        cost=st.sampled_from([1.0, 5.0, 40.0]),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
        counter=st.sampled_from([0.0, 1.0, 7.5, 30.0]),
    ),
    min_size=1,
    max_size=8,
)


def drained(queue: list[Backlog], rate: float) -> list[Expected]:
    """When the next and the last call of each go, if the least counter of the most urgent priority always goes next."""
    left = [backlog.calls for backlog in queue]
    counters = [backlog.counter for backlog in queue]
    times: list[list[float]] = [[] for _ in queue]
    now = 0.0
    while any(left):
        _, _, first = min((queue[i].priority, counters[i], i) for i, calls in enumerate(left) if calls)
        now += queue[first].cost / rate
        times[first].append(now)
        counters[first] += queue[first].cost / queue[first].weight
        left[first] -= 1
    return [Expected(own[0], own[-1]) for own in times]


@given(backlogs, st.sampled_from([0.5, 10.0]))
def test_it_is_off_by_a_call_of_each_and_by_what_they_are_apart(queue: list[Backlog], rate: float) -> None:
    """Next and last of every backlog are foretold to within the tenants' lead over each other and a call of each."""
    apart = sum(30.0 * backlog.weight for backlog in queue)
    largest = max(backlog.cost / backlog.weight for backlog in queue)
    slack = (apart + sum(backlog.cost + largest * backlog.weight for backlog in queue)) / rate
    for foretold, happened in zip(forecast(queue, rate), drained(queue, rate), strict=True):
        assert foretold.last_in == pytest.approx(happened.last_in, abs=slack)
        assert foretold.next_in == pytest.approx(happened.next_in, abs=slack)


@given(backlogs, st.sampled_from([0.0, 0.1]))
def test_all_is_done_when_the_work_is(queue: list[Backlog], share: float) -> None:
    """The last of all goes when the whole work is done at the rate, and nobody's next goes after its last."""
    expected = forecast(queue, 2.0, minimum_share=share)
    assert max(one.last_in for one in expected) == pytest.approx(sum(backlog.work for backlog in queue) / 2.0)
    for one, backlog in zip(expected, queue, strict=True):
        assert 0.0 < one.next_in <= one.last_in
        assert one.last_in >= backlog.work / 2.0 * (1 - 1e-9)


def test_a_lower_priority_waits_but_for_its_share() -> None:
    """Batch work is done after the urgent; with a minimum share a little goes at once, and costs the urgent as much."""
    urgent, batch = Backlog(0, 90, 1.0, 1.0, 0.0), Backlog(2, 10, 1.0, 1.0, 0.0)
    assert forecast([urgent, batch], 1.0) == [Expected(1.0, 90.0), Expected(91.0, 100.0)]
    shared = forecast([urgent, batch], 1.0, minimum_share=0.1)
    assert shared[0].last_in == pytest.approx(100.0)
    assert shared[1] == Expected(pytest.approx(10.0), pytest.approx(100.0))


def test_a_tenants_own_limit_holds_it_alone() -> None:
    """A tenant that may send a call in ten seconds, the next in four, is done by that; others have what it leaves."""
    slow, other = Backlog(1, 7, 1.0, 1.0, 0.0, own_wait=4.0, own_pace=10.0), Backlog(1, 9, 1.0, 1.0, 20.0)
    assert forecast([slow, other], 1.0) == [Expected(4.0, 64.0), Expected(pytest.approx(1 / 0.9), pytest.approx(10.0))]


def test_the_one_who_is_behind_goes_first() -> None:
    """Whoever has the least counter goes next; the others when it has caught up with them."""
    behind, ahead = Backlog(1, 50, 1.0, 1.0, 0.0), Backlog(1, 50, 1.0, 1.0, 20.0)
    assert forecast([behind, ahead], 1.0)[0].next_in == 1.0
    assert forecast([behind, ahead], 1.0)[1].next_in == 21.0


def test_a_rate_is_that_of_the_time_in_which_a_queue_moves() -> None:
    """Calls that nobody waited behind, and times without a queue or with nothing open, leave the rate as it is."""
    pace = Pace(0.0)
    for second in range(10):
        pace.ended(100.0, float(second))
    assert pace.per_second(10.0) is None
    pace.waits(True, 10.0)
    assert pace.per_second(11.5) is None, "nothing was answered yet"
    for second in range(11, 31):
        pace.ended(100.0, float(second))
    assert pace.per_second(30.0) == pytest.approx(100.0)
    pace.waits(False, 30.0)
    pace.ended(1e6, 500.0)
    pace.waits(True, 600.0)
    assert pace.per_second(600.0) == pytest.approx(100.0)


def test_a_rate_follows_within_a_minute() -> None:
    """When a queue gets slower, the rate is the new one once a minute has passed, and it halves where nothing goes."""
    pace = Pace(0.0)
    pace.waits(True, 0.0)
    for second in range(300):
        pace.ended(100.0 if second < 200 else 10.0, float(second))
    assert pace.per_second(300.0) == pytest.approx(10.0, rel=0.1)
    assert pace.per_second(300.0 + STEP * STEPS) == pytest.approx(5.0, rel=0.15)
