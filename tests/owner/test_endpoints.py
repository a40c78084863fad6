"""Several endpoints behind one owner: loyalty, failover, and room kept on a local engine."""

import pytest
import trio

from agents.errors import Refused, Unavailable
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimProvider, SimulatedBackend
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from tests.owner.simulation import Load, drive
from tests.owner.staged import StagedBackend, request, running


def endpoints(*backends: StagedBackend, slots: int = 2, limits: tuple[LimitSpec, ...] = ()) -> list[Endpoint]:
    fixed = ConcurrencyConfig(fixed=slots)
    return [Endpoint(backend.name, backend, limits=limits, concurrency=fixed) for backend in backends]


async def test_calls_spread_over_idle_endpoints(autojump_clock: trio.testing.MockClock) -> None:
    """Calls of different runs go where most room is."""
    left, right = StagedBackend("left"), StagedBackend("right")
    async with running(Owner(OwnerConfig("test"), endpoints(left, right))) as owner:
        async with trio.open_nursery() as callers:
            for n in range(4):
                callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
        assert len(left.sent) == len(right.sent) == 2


async def test_a_run_stays_with_its_endpoint(autojump_clock: trio.testing.MockClock) -> None:
    """The calls of one run go to the endpoint that served its first, however idle the other is."""
    left, right = StagedBackend("left"), StagedBackend("right")
    async with running(Owner(OwnerConfig("test"), endpoints(left, right))) as owner:
        for _ in range(5):
            await OwnerPort(owner.inbox, Flow("acme", "job", "run")).call(request())
    assert sorted([len(left.sent), len(right.sent)]) == [0, 5]


async def test_a_run_takes_another_endpoint_after_two_seconds(autojump_clock: trio.testing.MockClock) -> None:
    """Loyalty ends when its endpoint stays busy: after 2 s any endpoint will do, and nobody else waits for it."""
    left, right = StagedBackend("left", words=["x"] * 50), StagedBackend("right")
    async with running(Owner(OwnerConfig("test"), endpoints(left, right, slots=1))) as owner:
        port = OwnerPort(owner.inbox, Flow("acme", "job", "run"))
        right.words = left.words = ("x",)
        await port.call(request("first"))
        busy, idle = (left, right) if left.sent else (right, left)
        busy.words = ("x",) * 100
        async with trio.open_nursery() as callers:
            callers.start_soon(OwnerPort(owner.inbox, Flow("other", "job", "a")).call, request("long"))
            callers.start_soon(OwnerPort(owner.inbox, Flow("other", "job", "b")).call, request("long"))
            await trio.sleep(10)
            began = trio.current_time()
            await port.call(request("second"))
            assert idle.sent[-1].messages[0].content == "second"
            assert trio.current_time() - began == pytest.approx(2 + 5, abs=0.1)


async def test_a_dead_endpoint_gets_probes_only(autojump_clock: trio.testing.MockClock) -> None:
    """When one endpoint refuses every connection the calls move to the other, and no caller sees an error."""
    dead, alive = StagedBackend("dead"), StagedBackend("alive")
    dead.plan = lambda n, request: Unavailable("connection refused", worked=False)
    async with running(Owner(OwnerConfig("test"), endpoints(dead, alive))) as owner:
        async with trio.open_nursery() as callers:
            for n in range(60):
                callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
        assert owner.statistics().endpoints[0].breaker != "closed"
    assert len(alive.sent) == 60
    assert len(dead.sent) < 20


async def test_R25_an_endpoint_without_quota_is_left_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """R25: no quota opens the breaker at the first refusal; the call itself is served by the other endpoint."""
    empty, full = StagedBackend("empty"), StagedBackend("full")
    empty.plan = lambda n, request: Refused("no quota", status=429, code="insufficient_quota", endpoint_fault=True)
    async with running(Owner(OwnerConfig("test"), endpoints(empty, full, slots=1))) as owner:
        for n in range(10):
            reply = await OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call(request())
            assert reply.finish_reason == "stop"
    assert len(empty.sent) <= 2
    assert len(full.sent) == 10


async def test_R25_without_another_endpoint_the_refusal_reaches_the_caller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """R25: where only one endpoint is, a missing quota fails fast after one attempt and opens the breaker."""
    empty = StagedBackend("empty")
    empty.plan = lambda n, request: Refused("no quota", status=429, code="insufficient_quota", endpoint_fault=True)
    async with running(Owner(OwnerConfig("test"), endpoints(empty))) as owner:
        with pytest.raises(Refused, match="no quota"):
            await OwnerPort(owner.inbox, Flow("acme", "job", "run")).call(request())
        assert trio.current_time() < 5
        assert owner.statistics().endpoints[0].breaker == "open"


async def test_a_wrong_key_ends_all_who_wait_and_recovers(autojump_clock: trio.testing.MockClock) -> None:
    """When every endpoint refuses everybody the queue gets that answer at once, until a later call finds it mended."""
    backend = StagedBackend()
    wrong = Refused("the key is wrong", status=401, endpoint_fault=True)
    backend.plan = lambda n, request: wrong if n <= 2 else None
    refused = 0

    async def caller(n: int) -> None:
        nonlocal refused
        with pytest.raises(Refused, match="key is wrong"):
            await OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call(request())
        refused += 1

    async with running(Owner(OwnerConfig("test"), endpoints(backend))) as owner:
        async with trio.open_nursery() as callers:
            for n in range(30):
                callers.start_soon(caller, n)
        assert refused == 30
        assert trio.current_time() < 10
        with pytest.raises(Refused, match="key is wrong"):
            await OwnerPort(owner.inbox, Flow("acme", "job", "soon")).call(request())
        await trio.sleep(70)
        assert (await OwnerPort(owner.inbox, Flow("acme", "job", "later")).call(request())).finish_reason == "stop"


async def test_limits_are_counted_per_endpoint(autojump_clock: trio.testing.MockClock) -> None:
    """Two keys of 3 requests a minute serve 6 calls at once and no seventh within that minute."""
    left, right = StagedBackend("left"), StagedBackend("right")
    limits = (LimitSpec("requests", 3, burst_seconds=60),)
    async with running(Owner(OwnerConfig("test"), endpoints(left, right, slots=5, limits=limits))) as owner:
        async with trio.open_nursery() as callers:
            for n in range(7):
                callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
            await trio.sleep(30)
            assert (len(left.sent), len(right.sent)) == (3, 3)
        assert 60 <= trio.current_time() < 75


async def newcomer_wait(headroom: HeadroomConfig | None) -> float:
    """The mean answer time of a light tenant beside two that fill a local engine."""
    config = SimConfig(
        exact_tokens=True,
        latency=SimLatency(first_token=0.5, output_rate=20, chunk_tokens=1000),
        length=SimLength(tokens=200, spread=0.3),
    )
    endpoint = Endpoint(
        "engine",
        SimulatedBackend("engine", SimProvider(config, clock=trio.current_time)),
        in_flight=InFlightSpec(first_token=4),
        concurrency=ConcurrencyConfig(fixed=8),
        headroom=headroom,
    )
    light = Load("light", 1, think=15, words=10, max_tokens=20)
    loads = [Load("one", 20, max_tokens=400), Load("two", 20, max_tokens=400), light]
    await drive(Owner(OwnerConfig("test"), [endpoint]), loads, seconds=900)
    return light.waits.mean


async def test_headroom_serves_newcomers_sooner(autojump_clock: trio.testing.MockClock) -> None:
    """On an engine that two tenants fill, a light tenant waits less when the last slots are kept for it."""
    without = await newcomer_wait(None)
    kept = await newcomer_wait(HeadroomConfig())
    assert kept < 0.8 * without


async def test_headroom_keeps_nothing_from_a_lone_tenant(autojump_clock: trio.testing.MockClock) -> None:
    """With nobody else about, one tenant uses every slot."""
    backend = StagedBackend()
    endpoint = Endpoint("one", backend, concurrency=ConcurrencyConfig(fixed=8), headroom=HeadroomConfig(at_share=8))
    async with running(Owner(OwnerConfig("test"), [endpoint])) as owner, trio.open_nursery() as callers:
        for n in range(16):
            callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
    assert backend.peak == 8
