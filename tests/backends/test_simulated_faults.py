"""Faults of the simulated provider, in-process: each is what its name says, when its rule says."""

import pytest
import trio
from trio.testing import MockClock

from agents.errors import ModelError, Overloaded, Refused, Throttled, Truncated, Unavailable
from agents.messages import Usage
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.faults import Faults
from tests.backends.in_process import STEADY, send
from tests.backends.recorder import Recorder, ask


def faulty(*rules: FaultRule, **more: object) -> SimProvider:
    config = SimConfig(latency=STEADY, length=SimLength(tokens=30, spread=0.0), faults=rules, **more)  # type: ignore[arg-type]
    return SimProvider(config)


async def fails(provider: SimProvider, recorder: Recorder | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await send(provider, recorder=recorder)
    assert provider.statistics().in_flight == 0
    return caught.value


async def answers(provider: SimProvider, recorder: Recorder | None = None) -> Recorder:
    recorder = recorder or Recorder()
    await send(provider, recorder=recorder)
    return recorder


@pytest.mark.parametrize(
    ("status", "code", "kind", "endpoint_fault"),
    [
        (500, None, Unavailable, False),
        (503, None, Overloaded, False),
        (529, None, Overloaded, False),
        (429, None, Throttled, False),
        (429, "insufficient_quota", Refused, True),
        (400, None, Refused, False),
        (401, "invalid_api_key", Refused, True),
    ],
)
async def test_statuses_are_split_by_blame(
    autojump_clock: MockClock, status: int, code: str | None, kind: type[ModelError], endpoint_fault: bool
) -> None:
    """Each scripted status becomes the error of its blame, carries no readings, and the next call works."""
    provider = faulty(FaultRule(fault="status", status=status, code=code, nth=(1,)))
    recorder = Recorder()
    error = await fails(provider, recorder)
    assert type(error) is kind
    assert error.status == status
    assert getattr(error, "endpoint_fault", False) == endpoint_fault
    assert getattr(error, "exhausted", frozenset()) == frozenset()
    assert recorder.order == ["connected", "written"]
    await answers(provider)


async def test_refused_connections_did_no_work(autojump_clock: MockClock) -> None:
    """A refused connection is unavailable without work, and nothing of the request went out."""
    provider = faulty(FaultRule(fault="refuse", start=10, end=20))
    await answers(provider)
    await trio.sleep(10 - trio.current_time())
    recorder = Recorder()
    error = await fails(provider, recorder)
    assert isinstance(error, Unavailable)
    assert not error.worked
    assert recorder.order == []
    await trio.sleep(10)
    await answers(provider)
    assert provider.statistics().faults == {"refuse": 1}


async def test_silence_lasts_until_the_caller_leaves(autojump_clock: MockClock) -> None:
    """A silent provider answers nothing for as long as anybody waits; with `seconds` it then closes."""
    recorder = Recorder()
    with trio.move_on_after(3600) as scope:
        await answers(faulty(FaultRule(fault="silence")), recorder)
    assert scope.cancelled_caught
    assert recorder.order == ["connected", "written"]
    start = trio.current_time()
    error = await fails(faulty(FaultRule(fault="silence", seconds=7)))
    assert type(error) is Unavailable
    assert trio.current_time() == start + 7


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("after", [0, 1, 7, 30, 99])
async def test_truncation_keeps_what_came(autojump_clock: MockClock, after: int, reset: bool) -> None:
    """A truncated answer raises `Truncated` with exactly the tokens that were sent before the cut."""
    provider, recorder = faulty(FaultRule(fault="truncate", after_tokens=after, reset=reset)), Recorder()
    error = await fails(provider, recorder)
    assert type(error) is Truncated
    assert error.partial == recorder.text
    assert provider.statistics().output_tokens.total == min(after, 30)
    assert recorder.usages == []


@pytest.mark.parametrize(("status", "kind"), [(500, Unavailable), (529, Overloaded)])
async def test_an_error_inside_the_stream(autojump_clock: MockClock, status: int, kind: type[ModelError]) -> None:
    """An error object after some tokens fails the call by its structured type and keeps the partial text."""
    provider, recorder = faulty(FaultRule(fault="error_event", status=status, after_tokens=6)), Recorder()
    error = await fails(provider, recorder)
    assert type(error) is kind
    assert error.partial == recorder.text != ""
    assert provider.statistics().output_tokens.total == 6


async def test_a_stall_delays_and_no_more(autojump_clock: MockClock) -> None:
    """A stall puts its seconds into the stream at its token and changes nothing else."""
    plain = await answers(faulty())
    start = trio.current_time()
    stalled = await answers(faulty(FaultRule(fault="stall", after_tokens=11, seconds=40)))
    assert stalled.text == plain.text
    gaps = [b[0] - a[0] for a, b in zip(stalled.batches, stalled.batches[1:], strict=False)]
    assert max(gaps) == pytest.approx(40.5)
    assert trio.current_time() - start == pytest.approx(1 + 2.9 + 40)


async def test_slow_headers_come_late(autojump_clock: MockClock) -> None:
    """Slow headers delay the first token by as much."""
    start = trio.current_time()
    recorder = await answers(faulty(FaultRule(fault="slow_headers", seconds=9)))
    assert recorder.batches[0][0] - start == pytest.approx(10)


async def test_heartbeats_fill_the_silence(autojump_clock: MockClock) -> None:
    """Heartbeats come while no token does, in prefill and in a stall, and add no time."""
    provider = faulty(
        FaultRule(fault="heartbeats", seconds=0.3),
        FaultRule(fault="stall", after_tokens=6, seconds=1.0),
    )
    start = trio.current_time()
    recorder = await answers(provider)
    assert recorder.order[:7] == ["connected", "written", "headers", "alive", "alive", "alive", "deltas"]
    assert recorder.batches[0][0] - start == pytest.approx(1)
    assert trio.current_time() - start == pytest.approx(1 + 2.9 + 1)


async def test_usage_twice_and_not_at_all(autojump_clock: MockClock) -> None:
    """Usage may be reported twice, the same both times, or never, and then it is unknown."""
    twice = await answers(faulty(FaultRule(fault="duplicate_usage")))
    assert len(twice.usages) == 2
    assert twice.usages[0] == twice.usages[1]
    recorder = Recorder()
    reply = await SimulatedBackend("sim", faulty(FaultRule(fault="no_usage"))).connect().send(ask(), recorder)
    assert recorder.usages == []
    assert reply.usage == Usage()


async def test_a_failed_call_keeps_its_request_and_returns_its_tokens(autojump_clock: MockClock) -> None:
    """Reconciled, a 500 takes one request and no tokens; at admission it takes both."""
    for counted, left in (("reconciled", 2000), ("at_admission", 2000 - 1024)):
        limits = (
            SimLimit(kind="requests", amount=5, counted=counted),  # type: ignore[arg-type]
            SimLimit(kind="output_tokens", amount=2000, counted=counted),  # type: ignore[arg-type]
        )
        provider = faulty(FaultRule(fault="status", status=500), limits=limits)
        await fails(provider)
        assert [reading.remaining for reading in provider.readings()] == [4, left]


def test_chance_is_seeded_and_per_call() -> None:
    """A rule's draws depend on the seed and the call alone, hit at its rate, and don't move when a rule is added."""
    rule = FaultRule(fault="status", probability=0.3)
    more = FaultRule(fault="stall", probability=0.5, seconds=1)

    def struck(*rules: FaultRule, seed: int = 1) -> list[int]:
        faults = Faults(rules, seed)
        return [n for n in range(1, 2001) if "status" in faults.of_call(n, 0.0)]

    assert struck(rule) == struck(rule) == struck(rule, more)
    assert struck(rule) != struck(rule, seed=2)
    assert 540 <= len(struck(rule)) <= 660


def test_conditions_hold_together() -> None:
    """A rule fires only for its calls and within its window; the first rule of a kind that fires wins."""
    first = FaultRule(fault="status", status=503, nth=(2, 3), start=10, end=20)
    faults = Faults((first, FaultRule(fault="status", status=500, start=15)), seed=0)
    assert [n for n in range(1, 5) if faults.of_call(n, 10.0)] == [2, 3]
    assert not faults.of_call(2, 9.99)
    assert faults.of_call(2, 15.0)["status"].status == 503
    assert faults.of_call(2, 20.0)["status"].status == 500
