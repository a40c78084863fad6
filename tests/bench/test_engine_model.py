"""The model of an engine, its policies, and the owner in front of it."""

import math
import random

import pytest

from bench.engine.model import A10G, Engine, Job, peak_tokens
from bench.engine.policies import Counters, Fcfs, Predicting, Rpm, known, within
from bench.engine.simulate import Served, simulate
from bench.fairness.systems import Tuning, run, run_headrace
from bench.traces.base import TraceCall
from orchestrator.policy.limits import InFlightSpec


def _calls(*rows: tuple[float, str, int, int]) -> list[TraceCall]:
    return [TraceCall(at=at, tenant=tenant, input=given, output=output) for at, tenant, given, output in rows]


def _busy(seed: int = 0) -> list[TraceCall]:
    rng = random.Random(seed)
    rows = [(rng.uniform(0, 30), rng.choice("aab"), rng.randrange(16, 512), rng.randrange(1, 256)) for _ in range(120)]
    return [TraceCall(at=at, tenant=t, input=i, output=o, max_tokens=1024) for at, t, i, o in sorted(rows)]


def _service(served: Served, until: float) -> dict[str, float]:
    service: dict[str, float] = {}
    for request in served.requests:
        if request.end <= until:
            service[request.client] = service.get(request.client, 0) + request.input + 2 * request.output
    return service


def test_a_single_request_takes_its_prefill_and_its_steps() -> None:
    """The time of a request alone is that of its prefill and of one step for each further token."""
    served = simulate(_calls((1.0, "a", 100, 5)), Fcfs())
    steps = sum(A10G.base + A10G.per_sequence + A10G.per_kv_token * (100 + made) for made in range(1, 5))
    request = served.requests[0]
    assert request.first == pytest.approx(1.0 + 100 * A10G.per_prefill_token)
    assert request.end == pytest.approx(request.first + steps)
    assert served.seconds == request.end


def test_peak_is_the_most_that_the_cache_ever_holds() -> None:
    """The peak formula agrees with letting the batch run to its end, token by token."""
    rng = random.Random(1)
    for _ in range(200):
        jobs = [
            Job(client="", input=rng.randrange(1, 50), output=out, made=rng.randrange(0, out))
            for out in (rng.randrange(1, 40) for _ in range(rng.randrange(1, 8)))
        ]
        expected = peak_tokens(jobs)
        most = 0
        while jobs:
            for job in jobs:
                job.made += 1
            most = max(most, sum(job.held for job in jobs))
            jobs = [job for job in jobs if job.left > 0]
        assert most == expected


def test_nobody_is_let_in_beyond_the_cache_nor_before_ten_steps() -> None:
    """The batch's peak stays below the cache, and admissions to a running batch are ten steps apart."""
    queue = Fcfs()
    for number in range(60):
        queue.push(Job(client="", input=400, output=50 + number), 0.0)
    engine = Engine(queue)
    since: int | None = None
    while (phase := engine.phase()) is not None:
        if phase.admitted:
            assert since is None or since >= A10G.admit_every
            assert sum(job.input for job in phase.admitted) <= A10G.prefill_tokens
            since = 0
        elif since is not None:
            since += 1
        engine.finish(phase)
        assert peak_tokens(engine.batch) < A10G.kv_tokens
        if not engine.batch:
            since = None


def test_whoever_gave_up_leaves_the_engine() -> None:
    """A request that nobody wants any more has at most one more token."""
    queue = Fcfs()
    wanted, unwanted = Job(client="", input=10, output=20), Job(client="", input=10, output=2000)
    queue.push(unwanted, 0.0)
    queue.push(wanted, 0.0)
    engine = Engine(queue)
    first = engine.phase()
    assert first is not None
    engine.finish(first)
    engine.give_up(unwanted)
    while (phase := engine.phase()) is not None:
        engine.finish(phase)
    assert unwanted.made == 2
    assert wanted.made == 20


def test_rpm_turns_away_what_is_over_in_any_minute() -> None:
    """Five a minute are taken in any sixty seconds, and what was turned away does not count."""
    calls = _calls(*((10.0 * number, "a", 10, 5) for number in range(20)))
    served = simulate(calls, Rpm(5))
    assert [request.aborted for request in served.requests[:8]] == [False] * 5 + [True, True, False]
    assert all(math.isnan(request.end) for request in served.requests if request.aborted)


def test_counters_share_evenly_and_lcf_pays_for_idleness() -> None:
    """Under VTC a client that comes late shares evenly from then on; without the lift it has the engine to itself."""
    rows = [(0.0, "a", 256, 256)] * 400 + [(120.0, "b", 256, 256)] * 200
    by_lift = {}
    for lift in (True, False):
        served = simulate(_calls(*rows), Counters(lift=lift, predict=known))
        before, after = _service(served, 125.0), _service(served, 215.0)
        by_lift[lift] = [after.get(client, 0.0) - before.get(client, 0.0) for client in "ab"]
    assert by_lift[True][0] == pytest.approx(by_lift[True][1], rel=0.15)
    assert by_lift[False][1] > 5 * by_lift[False][0]


@pytest.mark.parametrize("policy", [Fcfs, Predicting, lambda: Counters(lift=True, predict=within(0.5, 3))])
def test_everybody_is_served_under_every_policy(policy: type[Fcfs]) -> None:
    """Every request that was not turned away ends, with its first token not after its last."""
    served = simulate(_busy(), policy())
    assert all(request.at < request.first <= request.end for request in served.requests)


def test_books_of_counters_end_at_what_was_served() -> None:
    """Predictions, right or wrong, are corrected: at the end a counter is the client's service less its first lift."""
    queue = Counters(lift=False, predict=within(0.5, 1))
    served = simulate(_busy(), queue)
    expected = _service(served, math.inf)
    assert {client: queue.counter(client) for client in expected} == pytest.approx(expected)


def test_an_owner_that_holds_nothing_back_is_first_come_first_served() -> None:
    """With one tenant and no bounds the engine behind an owner does what it does alone, to a step."""
    calls = [
        TraceCall(at=call.at, tenant="a", input=call.input, output=call.output, max_tokens=1024) for call in _busy(2)
    ]
    alone = simulate(calls, Fcfs())
    before = run_headrace(calls, Tuning(slots=1000, in_flight=InFlightSpec(), headroom=None))
    assert len(before.outcomes) == len(calls)
    assert before.seconds == pytest.approx(alone.seconds, rel=0.02)


def test_an_owner_before_the_engine_is_the_same_every_time() -> None:
    """The same calls with the same seed give the same result to the last digit."""
    first, second = (run("headrace", _busy(), seed=4) for _ in range(2))
    assert first.outcomes == second.outcomes
    assert first.seconds == second.seconds
