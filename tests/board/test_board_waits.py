"""What the board says of those who wait: what holds them, and when they are expected to go."""

import math
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from agents.errors import Unavailable
from agents.messages import Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.backends.simulated.backend import SimProvider, SimulatedBackend
from orchestrator.backends.simulated.config import SimConfig
from orchestrator.board import Board
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Transition
from orchestrator.views.queue import WaitView
from tests.board.board_rig import Rig

FACTOR = 1.5
"""Within which an expected end agrees with what happens (see `policy.forecast`)."""


class Pile:
    """`calls` of one tenant and priority, all there from the start, each of so many tokens; when they went."""

    def __init__(self, tenant: str, calls: int, tokens: int = 50, priority: Priority = Priority.STANDARD) -> None:
        self.tenant = tenant
        self.calls = calls
        self.tokens = tokens
        self.priority = priority
        self.went: list[float] = []

    async def call(self, owner: Owner, number: int) -> None:
        port = OwnerPort(owner.inbox, Flow(self.tenant, "job", f"run-{number}"), self.priority)
        await port.call(ModelRequest("sim", (Message("user", f"{number} hello"),), max_tokens=self.tokens))


async def drain(
    piles: Sequence[Pile],
    look_at: Sequence[float],
    *,
    slots: int = 256,
    limits: Sequence[LimitSpec] = (),
    tenants: dict[str, TenantConfig] | None = None,
) -> list[dict[tuple[str, str], WaitView]]:
    """Sends all and waits for all; what the board said of those who waited, at each of the times."""
    board = Board()

    def started(transition: Transition) -> None:
        if transition.kind == "started":
            for pile in piles:
                if (pile.tenant, pile.priority) == (transition.flow.tenant, transition.priority):
                    pile.went.append(transition.at)

    provider = SimProvider(SimConfig(exact_tokens=True))
    endpoint = Endpoint(
        "sim", SimulatedBackend("sim", provider), tuple(limits), concurrency=ConcurrencyConfig(fixed=slots)
    )
    owner = Owner(OwnerConfig("sim", DispatchConfig(tenants=tenants or {})), [endpoint], hooks=[board, started])
    seen = []
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        async with trio.open_nursery() as callers:
            for pile in piles:
                for number in range(pile.calls):
                    callers.start_soon(pile.call, owner, number)
            began = trio.current_time()
            for at in look_at:
                await trio.sleep_until(began + at)
                (backend,) = board.backends([owner], trio.current_time())
                seen.append({(t.tenant, wait.priority): wait for t in backend.tenants for wait in t.waits})
        nursery.cancel_scope.cancel()
    for pile in piles:
        pile.went = [at - began for at in pile.went]
    return seen


def agree(pile: Pile, wait: WaitView, at: float, slack: float) -> None:
    """What was said at `at` of a pile's last and next call is what happened, within `FACTOR` and a little."""
    assert wait.last_in is not None
    assert wait.next_in is not None
    last, following = pile.went[-1] - at, next(went for went in pile.went if went > at) - at
    assert last / FACTOR - slack <= wait.last_in <= last * FACTOR + slack
    assert wait.next_in <= following * FACTOR + slack
    assert wait.next_in <= wait.last_in


async def test_the_end_of_a_steady_backlog_is_foretold(autojump_clock: trio.testing.MockClock) -> None:
    """Behind a minute's limit the last call of a backlog goes when the board says, within a factor of 1.5."""
    pile = Pile("a", 300)
    looks = [30.0, 120.0, 300.0]
    seen = await drain([pile], looks, limits=[LimitSpec("requests", 30, burst_seconds=2.0)])
    for at, waits in zip(looks, seen, strict=True):
        agree(pile, waits["a", "standard"], at, slack=3.0)
        assert waits["a", "standard"].held_by == "requests/min"


async def test_busy_slots_have_a_pace_too(autojump_clock: trio.testing.MockClock) -> None:
    """Behind four slots the last call goes when the board says, though no limit names a rate."""
    pile = Pile("a", 200)
    looks = [10.0, 25.0]
    seen = await drain([pile], looks, slots=4)
    for at, waits in zip(looks, seen, strict=True):
        agree(pile, waits["a", "standard"], at, slack=4.0)


async def test_shares_and_sizes_are_counted(autojump_clock: trio.testing.MockClock) -> None:
    """Tenants of other weights, with calls of other sizes, in other priorities, end when the board says."""
    piles = [
        Pile("light", 40),
        Pile("heavy", 120),
        Pile("large", 20, tokens=400),
        Pile("night", 60, priority=Priority.BATCH),
    ]
    looks = [40.0, 90.0]
    seen = await drain(piles, looks, slots=4, tenants={"heavy": TenantConfig(weight=3)})
    for at, waits in zip(looks, seen, strict=True):
        for pile in piles:
            wait = waits.get((pile.tenant, pile.priority.name.lower()))
            if wait is not None and pile.went[-1] - at > 5.0:
                agree(pile, wait, at, slack=8.0)
    assert seen[0]["light", "standard"].last_in < seen[0]["night", "batch"].last_in


async def test_a_tenants_own_limit_sets_its_end(autojump_clock: trio.testing.MockClock) -> None:
    """A tenant at ten requests a minute of its own ends by that, and its neighbour long before it."""
    own = TenantConfig(limits=(LimitSpec("requests", 10, burst_seconds=6.0),))
    slow, quick = Pile("slow", 40), Pile("quick", 100)
    seen = await drain([slow, quick], [30.0], slots=2, tenants={"slow": own})
    agree(slow, seen[0]["slow", "standard"], 30.0, slack=6.0)
    agree(quick, seen[0]["quick", "standard"], 30.0, slack=6.0)
    assert seen[0]["slow", "standard"].held_by in ("tenant requests/min", "calls in flight", "fair_order")


async def test_nobody_knows_is_said(autojump_clock: trio.testing.MockClock) -> None:
    """Where nothing has been sent while calls waited, or the endpoint is broken, no end is foretold."""
    rig = Rig(1)
    async with rig.running() as callers:
        for number in range(3):
            callers.start_soon(rig.call, "a", Priority.STANDARD, str(number))
        await trio.sleep(100)
        (backend,) = rig.board.backends([rig.owner], trio.current_time())
        (wait,) = backend.tenants[0].waits
        assert (wait.queued, wait.held_by, wait.oldest) == (2, "calls in flight", 100.0)
        assert (wait.next_in, wait.last_in) == (None, None)
        assert (backend.held_by, backend.held_until) == ("calls in flight", None)
    rig = Rig(8)
    rig.backend.gate.set()
    async with rig.running() as callers:
        rig.backend.error = Unavailable("gone")
        for number in range(30):
            callers.start_soon(rig.call, "a", Priority.STANDARD, str(number))
        await trio.sleep(7.5)
        (backend,) = rig.board.backends([rig.owner], trio.current_time())
        assert backend.endpoints[0].failing_with == "unavailable: gone"
        for wait in backend.tenants[0].waits:
            assert (wait.next_in, wait.last_in) == (None, None)
            assert wait.held_by in ("breaker", "fair_order")
        assert backend.held_by == "breaker"
        assert backend.held_until is None or 0.0 <= backend.held_until < math.inf


async def test_all_at_their_own_limits_is_said(autojump_clock: trio.testing.MockClock) -> None:
    """Where everybody who waits is at a limit of its own, that is what holds the backend, and until when."""
    rig = Rig(8, {"a": TenantConfig(limits=(LimitSpec("requests", 1),))})
    rig.backend.gate.set()
    async with rig.running() as callers:
        for _ in range(2):
            callers.start_soon(rig.call, "a")
        await trio.sleep(1.0)
        (backend,) = rig.board.backends([rig.owner], trio.current_time())
        assert backend.held_by == "tenant_limit"
        assert backend.held_until == pytest.approx(59.0, abs=0.2)
        rig.owner.policy.look_again()
        statistics = rig.owner.statistics()
        assert statistics.held_by == "tenant_limit"
        assert statistics.oldest_waits == {"a": 1.0}
