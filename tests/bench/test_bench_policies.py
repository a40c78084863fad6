"""Policies side by side: each orders calls as it says."""

import pytest

from agents.port import Priority
from bench.play import Recorder, play
from bench.policies import POLICIES, policy_named, served
from bench.recorded import Speed
from bench.replay.settings import Provider
from bench.traces.base import TraceCall
from bench.virtual import in_virtual_time

ONE = Provider(concurrency=1, speed=Speed(first_token=1.0, input_rate=1e9, output_rate=100.0), headers=(0.0, 0.0))


Named = list[tuple[str, TraceCall]]


def _order(policy: str, named: Named) -> str:
    """The names of calls in the order of their ends."""
    names = {call.at: name for name, call in named}

    async def scenario() -> str:
        recorder = Recorder()
        async with served(POLICIES[policy], ONE.config(), [ONE.endpoint(ONE.backend(0))], hooks=[recorder]) as to:
            await play([call for _, call in named], to.call, recorder)
        return "".join(names[one.call.at] for one in recorder.played)

    return in_virtual_time(scenario)


def _calls(*made: tuple[str, str, int]) -> Named:
    """Calls (name, tenant, output) that come one after the other while the first is being answered."""
    return [
        (name, TraceCall(at=0.01 * place, input=1, output=output, tenant=tenant, run=tenant))
        for place, (name, tenant, output) in enumerate(made)
    ]


def test_fifo_keeps_the_order_of_arrival_whatever_the_tenant_or_priority() -> None:
    """Neither a busy tenant nor an urgent call changes it."""
    calls = _calls(("a", "x", 10), ("b", "x", 10), ("c", "x", 10), ("d", "y", 10))
    urgent = ("e", TraceCall(at=0.05, input=1, output=10, tenant="z", priority=Priority.INTERACTIVE))
    assert _order("fifo", [*calls, urgent]) == "abcde"
    assert _order("headrace", [*calls, urgent]).index("e") == 1


def test_round_robin_takes_turns_by_calls_and_vtc_by_tokens() -> None:
    """One tenant's calls are ten times as large: in turns it gets every second, by tokens one in ten."""
    calls = _calls(("-", "z", 10), *[("L", "large", 200)] * 6, *[("s", "small", 20)] * 6)
    turns, tokens = _order("round-robin", calls)[1:], _order("vtc", calls)[1:]
    assert turns in ("LsLsLsLsLsLs", "sLsLsLsLsLsL")
    assert tokens[:8].count("s") >= 6
    assert tokens != turns


def test_las_serves_the_run_that_has_had_the_least() -> None:
    """A run that comes new goes before the next call of one that was served, though it came later."""
    calls: Named = [
        ("a", TraceCall(at=0.0, input=1, output=50, run="old")),
        ("x", TraceCall(at=0.1, input=1, output=500, run="another")),
        ("b", TraceCall(at=2.0, input=1, output=10, run="old")),
        ("c", TraceCall(at=2.1, input=1, output=10, run="new")),
    ]
    assert _order("las", calls) == "axcb"
    assert _order("fifo", calls) == "axbc"


def test_runs_are_kept_apart_where_they_are_what_takes_turns() -> None:
    """A second run of one job gets its turn before the next calls of the first, by calls and by tokens."""
    calls: Named = [
        (name, TraceCall(at=0.01 * place, input=1, output=10, job="j", run=run))
        for place, (name, run) in enumerate((("a", "1"), ("b", "1"), ("c", "1"), ("d", "2")))
    ]
    assert _order("round-robin-runs", calls) == "adbc"
    assert _order("vtc-runs", calls) == "adbc"
    assert _order("round-robin", calls) == "abcd"


def test_without_a_policy_calls_go_out_at_once_and_come_back_after_a_429() -> None:
    """The provider refuses what comes too early; the caller obeys its wait, and gives up in the end."""
    provider = Provider(requests=2, speed=ONE.speed, headers=(0.0, 0.0))

    async def scenario() -> tuple[list[str], int, float]:
        recorder, backend = Recorder(), provider.backend(0)
        async with served(
            POLICIES["no-policy"], provider.config(), [provider.endpoint(backend)], hooks=[recorder]
        ) as to:
            assert to.owner is None
            await play([call for _, call in _calls(*[("a", "t", 10)] * 20)], to.call, recorder)
        waits = [one.waited for one in recorder.played if one.outcome == "ok"]
        return [one.outcome for one in recorder.played], backend.refused, max(waits)

    outcomes, refused, longest = in_virtual_time(scenario)
    assert outcomes.count("ok") >= 4
    assert outcomes.count("throttled") > 4
    assert set(outcomes) == {"ok", "throttled"}
    assert refused > 20
    assert longest > 50.0


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    """The message lists them."""
    with pytest.raises(ValueError, match="there is no policy 'lifo'; there are headrace, fifo, round-robin"):
        policy_named("lifo")
