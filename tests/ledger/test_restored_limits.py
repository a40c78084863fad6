"""A daemon that is killed and started again: the provider's windows have not moved, and nobody gets a 429."""

from collections.abc import Sequence

import pytest
import trio
from msgspec.structs import replace

from agents.errors import ModelError
from agents.messages import Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, Receipt
from orchestrator.backends.simulated.backend import (
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.config import Algorithm, Counted
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.history import Sent, restore
from orchestrator.policy.limits import LimitSet, LimitSpec
from orchestrator.restored_limits import restore_limits, sent_before
from orchestrator.store.ledger_port import CallRow
from orchestrator.store.memory_ledger import MemoryLedger
from tests.ledger.ledgers import NOON

Clock = trio.testing.MockClock

EXACT = SimConfig(
    exact_tokens=True,
    latency=SimLatency(arrival=(0.0, 0.3), headers=(0.0, 0.5), chunk_tokens=1000),
    length=SimLength(tokens=80),
)
MINUTE = (LimitSpec("total_tokens", 30_000), LimitSpec("requests", 400))


class Dying(MemoryLedger):
    """A ledger whose daemon can be killed: nothing that is written after that reaches it."""

    dead = False

    def write(self, rows: Sequence[CallRow]) -> None:
        if not self.dead:
            super().write(rows)


class World:
    """A provider, a ledger, and one daemon after the other in front of them."""

    def __init__(
        self,
        config: SimConfig,
        sim: Sequence[SimLimit],
        limits: Sequence[LimitSpec],
        tenants: dict[str, TenantConfig] | None = None,
    ) -> None:
        self.provider = SimProvider(replace(config, limits=tuple(sim)), clock=trio.current_time)
        self.ledger = Dying()
        self.limits = tuple(limits)
        self.tenants = tenants or {}
        self.began = trio.current_time()
        self.lives = 0
        self.answered: dict[str, list[float]] = {}

    def wall(self) -> float:
        return NOON + trio.current_time() - self.began

    async def live(self, seconds: float, *, remember: bool = True, agents: int = 40) -> Owner:
        """One daemon's life, ended by a kill."""
        self.lives += 1
        self.ledger.dead = False
        hook = LedgerHook(self.ledger, wall=self.wall)
        backend = SimulatedBackend("one", self.provider)
        endpoint = Endpoint("one", backend, self.limits, concurrency=ConcurrencyConfig(fixed=64))
        owner = Owner(OwnerConfig("main", DispatchConfig(tenants=self.tenants)), [endpoint], hooks=[hook])
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            if remember:
                await self.ledger.end_open(self.wall())
                rows = await sent_before(self.ledger, [owner], self.wall())
                restore_limits([owner], rows, self.wall(), trio.current_time())
            for n in range(agents):
                nursery.start_soon(self._agent, owner, n)
            await trio.sleep(seconds)
            self.ledger.dead = True
            nursery.cancel_scope.cancel()
        return owner

    async def _agent(self, owner: Owner, number: int) -> None:
        tenant = f"t{number % 2}"
        port = OwnerPort(owner.inbox, Flow(tenant, "job", f"run-{number}"))
        for turn in range(100_000):
            text = f"{number} {turn} " + "word " * 50
            receipt = Receipt(f"run-{number}/{self.lives}/{turn}")
            try:
                await port.call(ModelRequest("m", (Message("user", text),), max_tokens=100), receipt=receipt)
                self.answered.setdefault(tenant, []).append(trio.current_time())
            except ModelError:
                await trio.sleep(1)


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
@pytest.mark.parametrize("counted", ["at_admission", "reconciled", "as_produced"])
async def test_a_restart_causes_no_429(counted: Counted, algorithm: Algorithm, autojump_clock: Clock) -> None:
    """Killed at full load and started again at once, several times: the minute's limits hold throughout."""
    sim = (
        SimLimit(kind="total_tokens", amount=30_000, algorithm=algorithm, counted=counted),
        SimLimit(kind="requests", amount=400, algorithm=algorithm),
    )
    world = World(EXACT, sim, (LimitSpec("total_tokens", 30_000, counted=counted), MINUTE[1]))
    for seconds in (100.0, 17.0, 3.0, 62.0):
        await world.live(seconds)
        await trio.sleep(0.5)
    assert world.provider.statistics().throttled == 0
    assert world.provider.limits[0].utilisation(60.0, 100.0) > 0.9


async def test_a_daemon_that_remembers_nothing_is_refused(autojump_clock: Clock) -> None:
    """The same restart without the ledger runs into the provider's limit: that is what it is for."""
    sim = (SimLimit(kind="total_tokens", amount=30_000),)
    world = World(EXACT, sim, MINUTE[:1])
    await world.live(150.0)
    await world.live(100.0, remember=False)
    assert world.provider.statistics().throttled > 10


async def test_estimated_amounts_cause_no_429_after_a_restart(autojump_clock: Clock) -> None:
    """Where the provider counts tokens in its own way, calls that were cut off are taken with a margin."""
    sim = (SimLimit(kind="total_tokens", amount=30_000),)
    world = World(replace(EXACT, exact_tokens=False), sim, MINUTE[:1])
    for seconds in (130.0, 30.0, 62.0):
        await world.live(seconds)
    assert world.provider.statistics().throttled == 0


async def test_a_day_that_is_used_up_stays_used_up(autojump_clock: Clock) -> None:
    """A day's requests are counted over restarts, and room comes back only when a day has passed since they were."""
    sim = (SimLimit(kind="requests", amount=300, per=86_400.0),)
    world = World(EXACT, sim, (LimitSpec("requests", 300, per=86_400.0),))
    await world.live(3_600.0)
    used = sum(map(len, world.answered.values()))
    assert 250 <= used <= 300
    await world.live(3_600.0)
    assert sum(map(len, world.answered.values())) <= 300
    assert world.provider.statistics().throttled == 0
    await trio.sleep(86_400.0 - 2 * 3_600.0)
    await world.live(3_600.0)
    assert sum(map(len, world.answered.values())) > used + 200
    assert world.provider.statistics().throttled == 0


async def test_a_tenants_own_limit_holds_over_a_restart(autojump_clock: Clock) -> None:
    """A tenant gets no second minute's worth by a restart; the other one is not held back by it."""
    own = {"t0": TenantConfig(limits=(LimitSpec("requests", 30),))}
    world = World(EXACT, (), (), own)
    await world.live(61.0, agents=4)
    before = {tenant: len(times) for tenant, times in world.answered.items()}
    await world.live(20.0, agents=4)
    times = world.answered["t0"]
    in_a_minute = max(sum(at <= other < at + 60.0 for other in times) for at in times)
    assert in_a_minute <= 30
    assert len(world.answered["t1"]) > before["t1"]


def test_each_way_of_counting_takes_what_it_would_have_taken() -> None:
    """Requests by number, tokens as reported or as held, cached input where it counts, and only what is in the span."""
    specs = (
        LimitSpec("requests", 1_000),
        LimitSpec("input_tokens", 10_000, cached_free=True),
        LimitSpec("output_tokens", 10_000, counted="as_produced"),
        LimitSpec("total_tokens", 10_000, counted="at_admission"),
        LimitSpec("total_tokens", 100_000, per=86_400.0),
    )
    limits = LimitSet(specs, now=1000.0)
    sent = [
        Sent(980.0, calls=2, input=100, cached=40, output=10, held_input=120, held_output=50),
        Sent(900.0, calls=5, input=1000, output=1000, held_input=1000, held_output=1000),
    ]
    restore(limits, 60.0, sent, 1000.0)
    assert [window.taken(1000.0) for window in limits.windows] == [2, 60, 10, 170, 0]
    restore(limits, 86_400.0, sent, 1000.0)
    assert limits.windows[-1].taken(1000.0) == 2110
    assert [window.taken(1041.0) for window in limits.windows] == [0, 0, 0, 0, 2110]


def test_a_stamp_in_the_future_counts_as_now() -> None:
    """A wall clock that was set back makes nothing count for longer than a span."""
    limits = LimitSet((LimitSpec("requests", 10),), now=0.0)
    restore(limits, 60.0, [Sent(5_000.0, calls=3)], 0.0)
    assert limits.windows[0].taken(59.0) == 3
    assert limits.windows[0].taken(61.0) == 0


def test_the_pacer_goes_on_where_it_stood() -> None:
    """After a burst just before the restart the next call waits its turn, as it would have without one."""
    limits = LimitSet((LimitSpec("requests", 60, burst_seconds=5),), now=100.0)
    restore(limits, 60.0, [Sent(100.0, calls=20)], 100.0)
    assert limits.windows[0].tat == pytest.approx(120.0)
