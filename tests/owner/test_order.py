"""Who is served when there is not enough for all: shares, priorities, patience."""

import pytest
import trio
from msgspec.structs import replace

from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimProvider
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.fair_config import FairConfig
from tests.owner.simulation import Load, run_load
from tests.owner.staged import Recorder, StagedBackend, one_endpoint, request, running

STEADY = SimConfig(exact_tokens=True, latency=SimLatency(chunk_tokens=1000), length=SimLength(tokens=60, spread=0.5))


def provider() -> SimProvider:
    return SimProvider(STEADY, clock=trio.current_time)


async def test_ten_times_the_load_gets_the_same_service(autojump_clock: trio.testing.MockClock) -> None:
    """Two tenants of equal weight, one with ten times as many agents, are served equally."""
    owner = await run_load(provider(), [Load("many", 100), Load("few", 10)], seconds=600, slots=4)
    tenants = owner.statistics().tenants
    assert tenants["many"].service == pytest.approx(tenants["few"].service, rel=0.02)


async def test_service_follows_the_weights(autojump_clock: trio.testing.MockClock) -> None:
    """Three backlogged tenants of weights 1, 2 and 4 get service in that proportion, whatever their calls' size."""
    tenants = {"one": TenantConfig(weight=1), "two": TenantConfig(weight=2), "four": TenantConfig(weight=4)}
    loads = [Load("one", 20, words=200), Load("two", 20), Load("four", 20, words=10, max_tokens=40)]
    owner = await run_load(provider(), loads, seconds=450, slots=4, dispatch=DispatchConfig(tenants=tenants))
    served = owner.statistics().tenants
    assert served["two"].service / served["one"].service == pytest.approx(2, rel=0.05)
    assert served["four"].service / served["one"].service == pytest.approx(4, rel=0.05)


async def test_a_tenant_that_comes_before_anything_is_known(autojump_clock: trio.testing.MockClock) -> None:
    """Short answers under a high `max_tokens`: who comes while none has ended has its share from the first calls on.

    What is predicted before anything is known, and for all calls of a backlog when they arrive, must not count against
    whoever comes next.
    """
    backend, seen = StagedBackend(step=0.1), Recorder()
    tenants = {"late": TenantConfig(weight=2)}
    owner = one_endpoint(backend, slots=4, hooks=[seen], dispatch=DispatchConfig(tenants=tenants))
    async with running(owner), trio.open_nursery() as callers:

        async def call(tenant: str, run: int) -> None:
            await OwnerPort(owner.inbox, Flow(tenant, "job", str(run))).call(request(max_tokens=4096))

        for run in range(60):
            callers.start_soon(call, "early", run)
        await trio.sleep(0.3)
        for run in range(60):
            callers.start_soon(call, "late", run)
        await trio.sleep(8)
        started = [transition.flow.tenant for transition in seen.seen if transition.kind == "started"][4:34]
        callers.cancel_scope.cancel()
    assert started.count("late") == pytest.approx(20, abs=4)


async def test_lower_priorities_get_their_minimum_share(autojump_clock: trio.testing.MockClock) -> None:
    """With all three priorities backlogged the urgent one gets 90 %, the others 5 % each, and nobody starves."""
    loads = [Load(priority.name, 20, priority=priority) for priority in Priority]
    owner = await run_load(provider(), loads, seconds=600, slots=4)
    served = {name: share.service for name, share in owner.statistics().tenants.items()}
    total = sum(served.values())
    assert served["INTERACTIVE"] / total == pytest.approx(0.90, abs=0.015)
    assert served["STANDARD"] / total == pytest.approx(0.05, abs=0.015)
    assert served["BATCH"] / total == pytest.approx(0.05, abs=0.015)


async def test_no_run_of_a_job_starves(autojump_clock: trio.testing.MockClock) -> None:
    """A long run beside an endless stream of new ones is overtaken, but never by more than the time set."""
    overtaking = 120.0
    dispatch = DispatchConfig(fair=FairConfig(overtaking=overtaking, put_back=10.0))
    long, short = Load("acme", 1, words=2000), Load("acme", 30, words=10, fresh=True)
    await run_load(provider(), [short, long], seconds=600, slots=2, dispatch=dispatch)
    assert overtaking < long.waits.longest < overtaking + 2 * short.waits.longest


async def test_S10_the_next_free_slot_goes_to_the_urgent_call(autojump_clock: trio.testing.MockClock) -> None:
    """S10: with all slots busy an urgent call preempts nobody and is the next to start."""
    backend = StagedBackend(words=["x"] * 10)
    async with running(one_endpoint(backend, slots=2)) as owner, trio.open_nursery() as callers:
        for n in range(6):
            port = OwnerPort(owner.inbox, Flow("acme", "job", str(n)), Priority.BATCH)
            callers.start_soon(port.call, request(f"batch {n}"))
        await trio.sleep(3)
        port = OwnerPort(owner.inbox, Flow("acme", "chat", "urgent"), Priority.INTERACTIVE)
        callers.start_soon(port.call, request("urgent"))
    order = [sent.messages[0].content for sent in backend.sent]
    assert "urgent" in order[2:4]


async def test_an_idle_backend_serves_a_light_tenant_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A tenant that asks now and then is answered sooner than the backlogged one beside it."""
    light, heavy = Load("light", 1, think=20), Load("heavy", 50)
    await run_load(provider(), [heavy, light], seconds=400, slots=4)
    assert light.waits.mean < 0.2 * heavy.waits.mean


async def test_slow_answers_are_all_served(autojump_clock: trio.testing.MockClock) -> None:
    """With two slots and a minute for each answer, eight callers have all been served after a few minutes."""
    slow = replace(STEADY, latency=SimLatency(first_token=60, chunk_tokens=1000))
    load = Load("acme", 8)
    await run_load(SimProvider(slow, clock=trio.current_time), [load], seconds=600, slots=2)
    assert load.waits.count >= 8
