"""Playing recorded calls through an owner."""

import pytest
import trio

from bench.play import Played, Recorder, play
from bench.policies import POLICIES, served
from bench.recorded import Speed
from bench.replay.settings import Provider
from bench.traces.base import TraceCall
from bench.virtual import in_virtual_time

FAST = Speed(first_token=1.0, input_rate=1e9, output_rate=10.0, steps=2)
ONE_AT_A_TIME = Provider(concurrency=1, speed=FAST, headers=(0.0, 0.0))


def _played(calls: list[TraceCall], provider: Provider = ONE_AT_A_TIME, policy: str = "headrace") -> list[Played]:
    async def scenario() -> list[Played]:
        recorder = Recorder()
        endpoint = provider.endpoint(provider.backend(0))
        async with served(POLICIES[policy], provider.config(), [endpoint], hooks=[recorder]) as to:
            await play(calls, to.call, recorder)
        return recorder.played

    return in_virtual_time(scenario)


def test_calls_come_at_their_times_and_wait_for_one_another() -> None:
    """Arrival, wait, first token and end of each call are those of a queue with one server."""
    calls = [TraceCall(at=2.0, input=10, output=10), TraceCall(at=2.5, input=10, output=20)]
    first, second = _played(calls)
    assert (first.arrived, first.waited, first.first_token, first.ended) == pytest.approx((2.0, 0.0, 3.0, 4.0))
    assert (second.arrived, second.waited, second.first_token, second.ended) == pytest.approx((2.5, 1.5, 5.0, 7.0))
    assert (first.call, second.call) == tuple(calls)
    assert {one.outcome for one in (first, second)} == {"ok"}


def test_a_deadline_counts_from_the_arrival_and_ends_the_wait() -> None:
    """A call whose deadline passes in the queue is recorded as such at that time, and never sent."""
    late = TraceCall(at=0.5, input=10, output=10, deadline=1.0)
    done = {one.call.at: one for one in _played([TraceCall(at=0.0, input=10, output=30), late])}
    assert done[0.5].outcome == "queue_timeout"
    assert done[0.5].ended == pytest.approx(1.5)
    assert done[0.5].attempts == 0
    assert done[0.0].outcome == "ok"


def test_every_call_is_recorded_once_under_every_policy() -> None:
    """Whatever the policy, each call has exactly one end, with its own flow kept."""
    calls = [TraceCall(at=0.1 * n, input=10, output=5, tenant=f"t{n % 3}", run=f"r{n % 5}") for n in range(30)]
    for policy in POLICIES:
        done = _played(calls, policy=policy)
        assert sorted((one.call.at, one.call.tenant) for one in done) == [(call.at, call.tenant) for call in calls]


def test_calls_that_are_broken_off_leave_nobody_waiting() -> None:
    """A play that is cancelled takes its calls with it, so that the owner holds none."""

    async def scenario() -> int:
        recorder = Recorder()
        endpoint = ONE_AT_A_TIME.endpoint(ONE_AT_A_TIME.backend(0))
        async with served(POLICIES["headrace"], ONE_AT_A_TIME.config(), [endpoint], hooks=[recorder]) as to:
            with trio.move_on_after(1.5):
                await play([TraceCall(at=0.0, input=10, output=50)] * 5, to.call, recorder)
            await trio.sleep(0.1)
            assert to.owner is not None
            return to.owner.statistics().queued + to.owner.statistics().live

    assert in_virtual_time(scenario) == 0
