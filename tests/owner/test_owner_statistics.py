"""What an owner says of itself for metrics: what holds its calls, its limits as others leave them, what tenants had."""

import pytest
import trio
import trio.testing

from agents.errors import Throttled
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.feedback import Reading
from orchestrator.policy.limits import LimitSpec
from tests.owner.staged import StagedBackend, one_endpoint, request, running


async def test_what_held_calls_is_summed_up(autojump_clock: trio.testing.MockClock) -> None:
    """Reasons are there from the start with nothing; waits are added once they are over, and services once settled."""
    owner = one_endpoint(StagedBackend())
    async with running(owner), trio.open_nursery() as callers:
        before = owner.statistics()
        assert before.held_by == ""
        assert before.held_seconds == {"fair_order": 0.0, "retry": 0.0, "tenant_limit": 0.0, "calls in flight": 0.0}
        for tenant in ("red", "red", "blue"):
            callers.start_soon(OwnerPort(owner.inbox, Flow(tenant)).call, request())
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(4.0)
        waiting = owner.statistics()
        assert waiting.held_by == "calls in flight"
        assert waiting.oldest_waits == pytest.approx({"red": 4.0, "blue": 4.0})
        assert not any(waiting.held_seconds.values())
        assert waiting.services == {"red": 0.0, "blue": 0.0}
    after = owner.statistics()
    assert after.held_by == ""
    assert sum(after.held_seconds.values()) == pytest.approx(6.0 + 12.0)
    assert after.services["red"] == pytest.approx(2 * after.services["blue"])
    assert after.services["blue"] == pytest.approx(10 + 2 * 2.0)
    assert after.oldest_waits == {}


async def test_limits_are_told_as_configured_and_as_left(autojump_clock: trio.testing.MockClock) -> None:
    """Amounts are those configured; what others use and what the provider took away is told as a part of them."""
    backend = StagedBackend()
    limits = (LimitSpec("requests", 100), LimitSpec("total_tokens", 1000))
    owner = Owner(OwnerConfig("test", DispatchConfig()), [Endpoint("one", backend, limits=limits)])
    async with running(owner):
        books = owner.policy.endpoints[0].limits
        (told,) = owner.statistics().endpoints
        assert told.limit_amounts == {"requests/min": 100.0, "total_tokens/min": 1000.0}
        assert told.limit_others == {"requests/min": 0.0, "total_tokens/min": 0.0}
        now = trio.current_time()
        books.observe([Reading("requests", limit=60, remaining=60), Reading("total_tokens", remaining=700)], now)
        (told,) = owner.statistics().endpoints
        assert told.limit_amounts == {"requests/min": 100.0, "total_tokens/min": 1000.0}
        assert told.limit_others == pytest.approx({"requests/min": 0.4, "total_tokens/min": 0.3})


async def test_cuts_are_counted(autojump_clock: trio.testing.MockClock) -> None:
    """An endpoint that refuses a call for too much at once has its concurrency cut, and that is told."""
    backend = StagedBackend()
    backend.plan = lambda n, asked: Throttled("too many") if n == 1 else None
    owner = Owner(
        OwnerConfig("test"), [Endpoint("one", backend, concurrency=ConcurrencyConfig(initial=10, at_most=10))]
    )
    async with running(owner):
        await OwnerPort(owner.inbox, Flow("red")).call(request())
    assert owner.statistics().endpoints[0].cuts == 1
    assert [(cut.before, cut.after) for cut in owner.policy.endpoints[0].concurrency.last_cuts] == [(10, 1)]


async def test_tenants_names_are_in_no_reason(autojump_clock: trio.testing.MockClock) -> None:
    """Waits for limits of tenants' own are summed up under one name, and so is what holds a backend then."""
    own = TenantConfig(limits=(LimitSpec("requests", 1),))
    owner = one_endpoint(StagedBackend(), slots=8, dispatch=DispatchConfig(tenants={"red": own}))
    async with running(owner), trio.open_nursery() as callers:
        for _ in range(2):
            callers.start_soon(OwnerPort(owner.inbox, Flow("red")).call, request())
        await trio.sleep(1.0)
        assert owner.statistics().held_by == "tenant_limit"
    held = owner.statistics().held_seconds
    assert held["tenant_limit"] == pytest.approx(sum(held.values()))
    assert held["tenant_limit"] > 50.0
