"""Several endpoints, some of them ill, in virtual time: who serves, who is spared, and that nothing is lost."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Overloaded, Throttled, Unavailable
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.base import Backend
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLength,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.limits import LimitSpec
from tests.owner.fleet import Fleet
from tests.owner.staged import StagedBackend, request, running

FOUR = ConcurrencyConfig(fixed=4)


@asynccontextmanager
async def serving(
    *backends: Backend, concurrency: ConcurrencyConfig = FOUR, limits: Sequence[LimitSpec] = ()
) -> AsyncIterator[tuple[Owner, Fleet]]:
    """An owner of these endpoints and callers for it; at the end every book is at zero and no call ended twice."""
    fleet = Fleet()
    endpoints = [Endpoint(backend.name, backend, tuple(limits), concurrency=concurrency) for backend in backends]
    async with running(Owner(OwnerConfig("test"), endpoints, hooks=[fleet])) as owner:
        fleet.port = lambda flow: OwnerPort(owner.inbox, flow)
        yield owner, fleet
    fleet.assert_each_ended_once()


def simulated(name: str, *faults: FaultRule) -> SimulatedBackend:
    config = SimConfig(faults=faults, latency=SimLatency(first_token=0.2), length=SimLength(tokens=8))
    return SimulatedBackend(name, SimProvider(config, clock=trio.current_time))


def down(start: float, end: float) -> FaultRule:
    return FaultRule(fault="refuse", start=start, end=end)


async def test_a_flapping_endpoint(autojump_clock: trio.testing.MockClock) -> None:
    """Each time it goes down it is tried a few times only; each time it is back its traffic returns; nobody notices."""
    outages = [(60.0, 90.0), (150.0, 180.0), (240.0, 270.0)]
    flapping, steady = simulated("flapping", *itertools.starmap(down, outages)), simulated("steady")
    stats = flapping.provider.statistics()
    refused: list[int] = []
    served: list[int] = []

    async def watch() -> None:
        for start, end in [*outages, (330.0, 331.0)]:
            completed = stats.completed
            await trio.sleep_until(start)
            served.append(stats.completed - completed)
            before = stats.faults["refuse"]
            await trio.sleep_until(end)
            refused.append(stats.faults["refuse"] - before)

    async with serving(flapping, steady) as (_, fleet), trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await fleet.send(3300, every=0.1)
    fleet.assert_all_served()
    # five failures open the breaker, with at most three more of the same moment; then a probe at 1, 3, 7 and 15 s
    assert max(refused) <= 5 + 3 + 5
    assert min(refused[:3]) >= 5
    # of 60 s at ten calls a second, shared by two
    assert min(served) > 200


async def test_all_down_and_back(autojump_clock: trio.testing.MockClock) -> None:
    """Through ten minutes in which nobody answers all calls wait, and when one endpoint is back all are served once."""
    endpoints = [simulated(name, down(10, 610)) for name in ("a", "b")]
    gone = simulated("gone", down(10, 1e9))
    async with serving(*endpoints, gone) as (_, fleet), trio.open_nursery() as callers:
        callers.start_soon(fleet.send, 20)
        await trio.sleep(20)
        await fleet.send(100)
        assert trio.current_time() > 610
    fleet.assert_all_served()
    assert trio.current_time() < 610 + 60 + 60
    # eight live calls at each when it goes down; then a probe after 1, 3, 7, 15, 31, 63 s and each minute from then on
    assert all(tries <= 8 + 6 + 11 for tries in fleet.failed.values())


async def test_an_outage_without_end_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """After a quarter of an hour the calls whose turn it is to probe use up their tries, and say what is wrong."""
    async with serving(simulated("a", down(10, 1e9))) as (_, fleet), trio.open_nursery() as callers:
        await fleet.send(4)
        await trio.sleep(20)
        callers.start_soon(fleet.send, 3)
        await trio.sleep(900)
        assert fleet.errors == []
        await trio.sleep(3600)
    assert [type(error) for error in fleet.errors] == [Unavailable] * 3


async def test_an_address_where_nobody_ever_answered_is_told_soon(autojump_clock: trio.testing.MockClock) -> None:
    """What has never answered is more likely a mistake than an outage: a call ends after its six tries."""
    async with serving(simulated("a", down(0, 1e9))) as (_, fleet):
        await fleet.send(1)
        assert trio.current_time() < 60
        assert [type(error) for error in fleet.errors] == [Unavailable]


async def test_a_call_that_kills_its_endpoint_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    """A call after which the server is gone each time ends after its tries, and the others are served."""
    backend = StagedBackend("mortal", step=0.01)
    backend.plan = lambda n, request: Unavailable("it died") if "poison" in request.messages[0].content else None
    async with serving(backend) as (_, fleet), trio.open_nursery() as callers:
        callers.start_soon(fleet.one, request("poison"))
        await trio.sleep(1)
        await fleet.send(20)
    assert len(fleet.errors) == 1


async def test_a_slow_endpoint_beside_a_fast_one(autojump_clock: trio.testing.MockClock) -> None:
    """The fast one serves almost all, and the whole takes no longer than it would alone, but for one slow call."""
    fast, slow = StagedBackend("fast", step=0.1), StagedBackend("slow", step=20.0)
    async with serving(fast, slow) as (_, fleet):
        await fleet.send(400)
    fleet.assert_all_served()
    alone = 400 / 4 * 0.6
    slow_call = 20.0 * 6
    assert len(slow.sent) <= 4 * (1 + alone / slow_call)
    assert trio.current_time() <= alone + slow_call


@pytest.mark.parametrize("error", [Overloaded("full", status=529), Throttled("slow down"), Unavailable("oops")])
@pytest.mark.parametrize("ill", [1, 2])
async def test_an_endpoint_that_fails_at_once_is_no_trap(
    ill: int, error: ModelError, autojump_clock: trio.testing.MockClock
) -> None:
    """Never busy, it could get every call again and again; a call asks it once, and waits for the one that serves."""
    traps = [StagedBackend(f"trap {n}", step=0.001) for n in range(ill)]
    for trap in traps:
        trap.plan = lambda n, request: error
    good = StagedBackend("good", step=2.0)
    async with serving(*traps, good) as (_, fleet):
        await fleet.send(200)
    fleet.assert_all_served()
    assert all(len(trap.sent) <= 200 for trap in traps)
    assert trio.current_time() <= 200 / 4 * 12 + 5


async def test_one_bad_moment_keeps_no_call_away(autojump_clock: trio.testing.MockClock) -> None:
    """A call goes back to the endpoint that failed it, once another has succeeded there, if the others are busy."""
    shaky, busy = StagedBackend("shaky", step=0.1), StagedBackend("busy", step=0.1)
    shaky.plan = lambda n, request: Unavailable("oops") if n == 1 else None
    async with serving(busy, shaky, concurrency=ConcurrencyConfig(fixed=1)) as (owner, fleet):
        busy.step = 100.0
        async with trio.open_nursery() as callers:
            callers.start_soon(fleet.send, 2)
            await trio.sleep(1)
            assert len(fleet.outcomes) == 0
            await OwnerPort(owner.inbox, Flow("globex", "job", "other")).call(request())
            await trio.sleep(1)
            assert len(fleet.outcomes) == 1
    fleet.assert_all_served()


async def test_a_call_refused_for_long_moves_on_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """An endpoint that asks for a minute's (or an hour's) wait gets it, and its call goes to the other without any."""
    for wait in (60.0, 3600.0):
        gated, other = StagedBackend("gated", step=0.1), StagedBackend("other", step=0.1)
        gated.plan = lambda n, request, wait=wait: Throttled("later", retry_after=wait)  # type: ignore[misc]
        began = trio.current_time()
        async with serving(gated, other, concurrency=ConcurrencyConfig(fixed=1)) as (_, fleet):
            await fleet.send(40)
        fleet.assert_all_served()
        assert trio.current_time() - began < 60
        assert len(gated.sent) == 1


async def test_a_call_that_all_have_failed_goes_round(autojump_clock: trio.testing.MockClock) -> None:
    """Its six tries are spread over three endpoints, so one failure each does not end it."""
    backends = [StagedBackend(name, step=0.1) for name in ("a", "b", "c")]
    for backend in backends:
        backend.plan = lambda n, request: Overloaded("full", status=529) if n <= 1 else None
    async with serving(*backends) as (_, fleet):
        await fleet.send(1)
    fleet.assert_all_served()
    assert [len(backend.sent) for backend in backends].count(1) == 2


@pytest.mark.parametrize("count", [1, 2, 6])
async def test_many_endpoints_do_not_shorten_the_patience(count: int, autojump_clock: trio.testing.MockClock) -> None:
    """A blip of all endpoints at once is outlasted like one of a single endpoint, however many there are."""
    backends = [StagedBackend(f"e{n}", step=0.01) for n in range(count)]
    for backend in backends:
        backend.plan = lambda n, request: Overloaded("full", status=529) if trio.current_time() < 15.0 else None
    async with serving(*backends) as (_, fleet):
        await fleet.send(4)
    fleet.assert_all_served()
    # five tries that fail, of each call at each endpoint
    assert all(len(backend.sent) <= 4 * 6 for backend in backends)


GATE = 7.0


@pytest.mark.parametrize(
    ("error", "cut", "gated"),
    [
        (Overloaded("busy", status=529), False, False),
        (Overloaded("busy", status=529, retry_after=GATE), False, True),
        (Throttled("too many"), True, False),
        (Throttled("too many", retry_after=GATE), True, True),
        (Throttled("out of tokens", retry_after=GATE, exhausted=frozenset({"total_tokens"})), False, True),
    ],
    ids=["529", "529-with-a-time", "429", "429-with-a-time", "429-of-a-limit"],
)
async def test_what_a_refusal_does_to_the_endpoint(
    error: ModelError, cut: bool, gated: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """A 529 cuts no concurrency, a bare 429 does, one of a named limit gates alone; a time named gates in any case."""
    backend = StagedBackend("one", step=0.1)
    backend.plan = lambda n, request: error if n == 9 else None
    found = ConcurrencyConfig(initial=8, at_most=8)
    limits = [LimitSpec("total_tokens", 1e6)]
    async with serving(backend, concurrency=found, limits=limits) as (owner, fleet):
        began: list[float] = []
        plan = backend.plan
        backend.plan = lambda n, request: (began.append(trio.current_time()), plan(n, request))[1]
        await fleet.send(60)
        pauses = [later - sooner for sooner, later in itertools.pairwise(sorted(began))]
        assert owner.policy.endpoints[0].concurrency.cuts == int(cut)
        assert (max(pauses) >= GATE - 1) is gated
    fleet.assert_all_served()
