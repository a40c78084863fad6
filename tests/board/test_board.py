"""What the board counts of the last minute, and what it reads of owners."""

import time
from collections.abc import Sequence
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import Throttled, Unavailable
from agents.messages import Usage
from agents.port import Priority
from orchestrator import board as board_module
from orchestrator.board import MINUTE, SLOT_SECONDS, SLOTS, Board
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Transition
from orchestrator.views.queue import BackendView, TenantView
from tests.board.board_rig import USAGE, Rig, transition


def look(rig: Rig) -> tuple[BackendView, dict[str, TenantView]]:
    """The one backend now, and its tenants by name."""
    (backend,) = rig.board.backends([rig.owner], trio.current_time())
    return backend, {tenant.tenant: tenant for tenant in backend.tenants}


usages = st.none() | st.builds(
    Usage,
    input=st.none() | st.integers(0, 1000),
    cached=st.none() | st.integers(0, 1000),
    cache_write=st.none() | st.integers(0, 1000),
    output=st.none() | st.integers(0, 1000),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Transition]:
    """Transitions of a few tenants at two backends, over some minutes, in order."""
    at, steps = 0.0, []
    for _ in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0.0, 0.5, 3.0, SLOT_SECONDS, 20.0, 90.0]))
        steps.append(
            transition(
                draw(st.sampled_from(["started", "attempt_failed", "finished"])),
                at,
                draw(st.sampled_from(["a", "b", "c"])),
                backend=draw(st.sampled_from(["b", "other"])),
                outcome=draw(st.sampled_from(["ok", "throttled", "caller_gone"])),
                waited=draw(st.sampled_from([0.0, 0.25, 7.0])),
                usage=draw(usages),
            )
        )
    return steps


def expected(steps: Sequence[Transition], now: float) -> dict[str, tuple[float, float, float, float, float]]:
    """Calls, failures, tokens, mean wait and share by tenant at backend `b`, added up anew from the whole history."""
    first = (int(now // SLOT_SECONDS) - SLOTS + 1) * SLOT_SECONDS
    recent = [step for step in steps if step.backend == "b" and step.at >= first]
    weights, scale = ServiceWeights(), MINUTE / (now - first)

    def uncached(used: Usage) -> int:
        return (used.input or 0) + (used.cache_write or 0)

    def service(tenant: str) -> float:
        return sum(weights.cost(uncached(u), u.cached or 0, u.output or 0) for u in used_by(tenant))

    def used_by(tenant: str) -> list[Usage]:
        ended = [step for step in recent if step.flow.tenant == tenant and step.kind != "started"]
        return [step.usage for step in ended if step.usage is not None]

    table = {}
    total = sum(service(tenant) for tenant in "abc")
    for tenant in {step.flow.tenant for step in recent}:
        own = [step for step in recent if step.flow.tenant == tenant]
        ends = [step.outcome for step in own if step.kind == "finished"]
        waits = [step.waited for step in own if step.kind == "started"]
        table[tenant] = (
            ends.count("ok") * scale,
            ends.count("throttled") * scale,
            sum(uncached(u) + (u.cached or 0) + (u.output or 0) for u in used_by(tenant)) * scale,
            sum(waits) / len(waits) if waits else 0.0,
            service(tenant) / total if total else 0.0,
        )
    return table


@given(steps=histories(), later=st.sampled_from([0.0, 1.0, SLOT_SECONDS, 30.0, 54.9, 55.0, 60.0, 61.0]))
def test_sums_are_those_of_the_last_minute(steps: list[Transition], later: float) -> None:
    """Whatever happened when, the rates, waits and shares shown are those added up anew from the last minute."""

    async def check() -> None:
        rig = Rig(1)
        async with rig.running():
            for step in steps:
                rig.board(step)
            now = (steps[-1].at if steps else 0.0) + later
            (backend,) = rig.board.backends([rig.owner], now)
            shown = {
                t.tenant: (t.calls_per_minute, t.failed_per_minute, t.tokens_per_minute, t.mean_wait, t.share)
                for t in backend.tenants
            }
            wanted = expected(steps, now)
            assert shown.keys() == wanted.keys()
            for tenant, row in wanted.items():
                assert shown[tenant] == pytest.approx(row)

    trio.run(check, clock=trio.testing.MockClock())


def test_a_minute_later_all_is_forgotten() -> None:
    """A flood of a hundred thousand names leaves a bounded number of books, and none once the minute is over."""
    board = Board()
    for number in range(100_000):
        board(transition("finished", number / 1000, f"name-{number}", outcome="queue_full"))
    held = sum(len(sums) for _, slot in board._ring for sums in slot.values())
    assert held <= SLOTS * (board_module.NAMES + 1)
    board(transition("finished", 100 + MINUTE, "a", outcome="ok"))
    assert repr(board) == "<Board 1 tenants in 1 slots>"


async def test_unnamed_tenants_count_in_the_shares(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants beyond those that a slot knows by name are not shown, but nobody's share grows by that."""
    monkeypatch.setattr(board_module, "NAMES", 2)
    rig = Rig(1)
    async with rig.running():
        for name in ("a", "b", "c", "d"):
            rig.board(transition("finished", trio.current_time(), name, outcome="ok", usage=USAGE))
        _, tenants = look(rig)
    assert {name: tenant.share for name, tenant in tenants.items()} == {"a": 0.25, "b": 0.25}


async def test_who_waits_for_how_long_and_for_what(autojump_clock: trio.testing.MockClock) -> None:
    """Queued calls by priority, the longest wait and what holds them are those of the owner at this moment."""
    rig = Rig(1, {"heavy": TenantConfig(weight=3)})
    async with rig.running() as callers:
        for tenant, priority in (
            ("light", Priority.STANDARD),
            ("heavy", Priority.STANDARD),
            ("heavy", Priority.BATCH),
            ("light", Priority.STANDARD),
        ):
            callers.start_soon(rig.call, tenant, priority)
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(10)
        backend, tenants = look(rig)
        assert (backend.queued, backend.in_flight, backend.inbox, backend.retrying) == (3, 1, 0, 0)
        heavy, light = tenants["heavy"], tenants["light"]
        assert heavy.queued == {"interactive": 0, "standard": 1, "batch": 1}
        assert (heavy.weight, heavy.in_flight, heavy.oldest_wait) == (3.0, 0, 30.0)
        assert (light.weight, light.in_flight, light.oldest_wait) == (1.0, 1, 10.0)
        assert heavy.held_by == "calls in flight"
        assert light.held_by == "fair_order"
        rig.backend.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        backend, tenants = look(rig)
        assert (backend.queued, backend.in_flight) == (0, 0)
        assert (tenants["heavy"].oldest_wait, tenants["heavy"].held_by) == (0.0, "")
        assert tenants["heavy"].mean_wait == pytest.approx(25.0)
        assert sum(tenant.share for tenant in tenants.values()) == pytest.approx(1.0)
    assert tenants["light"].tokens_per_minute == pytest.approx(2 * 55, rel=0.1)


async def test_a_tenant_at_its_own_limit_is_said_to_be(autojump_clock: trio.testing.MockClock) -> None:
    """A parked tenant is held by its own limit, whose part in use is shown; limits say their amount and span."""
    own = LimitSpec("requests", 1, per=60)
    rig = Rig(8, {"small": TenantConfig(limits=(own,))}, limits=[LimitSpec("total_tokens", 1000)])
    rig.backend.gate.set()
    async with rig.running() as callers:
        for _ in range(3):
            callers.start_soon(rig.call, "small")
        await trio.testing.wait_all_tasks_blocked()
        backend, tenants = look(rig)
        small = tenants["small"]
        assert (small.held_by, small.queued["standard"]) == ("tenant requests/min", 2)
        assert [(limit.name, limit.amount, limit.per, limit.used) for limit in small.limits] == [
            ("requests/min", 1.0, 60.0, 1.0)
        ]
        (limit,) = backend.endpoints[0].limits
        assert (limit.name, limit.amount) == ("total_tokens/min", 1000.0)
        assert limit.used == pytest.approx(USAGE.total / 1000)


async def test_a_broken_endpoint_says_when_it_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    """Breaker and `retry-after` are shown with the seconds until the next try; calls to be retried are counted."""
    rig = Rig(8)
    rig.backend.gate.set()
    rig.backend.error = Throttled("slow down", retry_after=30.0)
    async with rig.running() as callers:
        callers.start_soon(rig.call)
        await trio.testing.wait_all_tasks_blocked()
        backend, _ = look(rig)
        (endpoint,) = backend.endpoints
        assert (endpoint.breaker, endpoint.opens_in) == ("closed", 30.0)
        assert (backend.retrying, backend.queued) == (1, 0)
    rig = Rig(8)
    rig.backend.gate.set()
    rig.backend.error = Unavailable("gone")
    async with rig.running() as callers:
        for number in range(5):
            callers.start_soon(partial(rig.call, run=str(number)))
        await trio.testing.wait_all_tasks_blocked()
        (endpoint,) = look(rig)[0].endpoints
        assert endpoint.breaker == "open"
        assert endpoint.failing_with == "unavailable: gone"
        assert endpoint.opens_in is not None
        assert 0 < endpoint.opens_in <= 1.0


async def test_calls_that_leave_the_queue_leave_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """When the longest waiting caller gives up, the next longest wait is shown; when all have, none is."""
    rig = Rig(1)
    async with rig.running() as callers:
        callers.start_soon(rig.call, "other")
        await trio.testing.wait_all_tasks_blocked()
        scopes = []
        for _ in range(3):
            scope = trio.CancelScope()
            scopes.append(scope)

            async def patient(scope: trio.CancelScope = scope) -> None:
                with scope:
                    await rig.call("a")

            callers.start_soon(patient)
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(10)
        seen = []
        for scope in scopes:
            seen.append(look(rig)[1]["a"].oldest_wait)
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
        assert seen == [30.0, 20.0, 10.0]
        assert look(rig)[1]["a"].oldest_wait == 0.0
        assert not rig.owner.policy.fair._trees[Priority.STANDARD].children["a"].since


async def test_looking_disturbs_no_measurement(autojump_clock: trio.testing.MockClock) -> None:
    """A board that is read every second leaves the spread between two scrapes as it would be without it."""
    rig = Rig(1)
    async with rig.running() as callers:
        for number in range(4):
            callers.start_soon(rig.call, "ab"[number % 2], Priority.STANDARD, str(number))
        await trio.testing.wait_all_tasks_blocked()
        rig.owner.statistics()
        marks = [node.mark for node in rig.owner.policy.fair._trees[1].children.values()]
        look(rig)
        assert [node.mark for node in rig.owner.policy.fair._trees[1].children.values()] == marks


async def test_ten_thousand_calls_cost_what_their_tenants_cost() -> None:
    """With 10,000 queued calls of 1,000 tenants a look takes less than 50 ms of CPU time."""
    rig = Rig(64)
    async with rig.running() as callers:
        for number in range(10_000):
            callers.start_soon(rig.call, f"tenant-{number % 1000}", Priority.STANDARD, str(number))
        await trio.testing.wait_all_tasks_blocked()
        costs = []
        for _ in range(5):
            began = time.process_time()
            backend, tenants = look(rig)
            costs.append(time.process_time() - began)
        assert (backend.queued + backend.in_flight, len(tenants)) == (10_000, 1000)
        assert min(costs) < 0.05
