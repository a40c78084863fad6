"""Limits, tenants and weights that change while calls are queued and live."""

import pytest
import trio

from agents.errors import InvalidLimits, ModelError, TooLarge
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.owner_config import EndpointLimits
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from tests.owner.staged import Recorder, StagedBackend, one_endpoint, request, running

STEP = 0.01
"""A call of six steps takes 0.06 s: nothing beside a limit by the minute."""


def limited(backend: StagedBackend, *limits: LimitSpec, tenants: dict[str, TenantConfig] | None = None) -> Owner:
    endpoint = Endpoint(backend.name, backend, limits=limits, concurrency=ConcurrencyConfig(fixed=50))
    return Owner(OwnerConfig("test", DispatchConfig(tenants=tenants or {})), [endpoint])


def change(owner: Owner, *limits: LimitSpec, slots: int = 50, tenants: dict[str, TenantConfig] | None = None) -> None:
    wanted = EndpointLimits(limits=limits, concurrency=ConcurrencyConfig(fixed=slots))
    owner.prepare(DispatchConfig(tenants=tenants or {}), {owner.endpoints[0].name: wanted})()


async def call(owner: Owner, run: int, *, tenant: str = "acme") -> None:
    await OwnerPort(owner.inbox, Flow(tenant, "job", str(run))).call(request())


async def test_a_limit_halved_and_doubled(autojump_clock: trio.testing.MockClock) -> None:
    """The rate follows the limit within the minute: what went out before counts against the new limit."""
    backend = StagedBackend(step=STEP)
    async with running(limited(backend, LimitSpec("requests", 120))) as owner, trio.open_nursery() as callers:
        for run in range(1000):
            callers.start_soon(call, owner, run)
        await trio.sleep(120)
        before = len(backend.sent)
        change(owner, LimitSpec("requests", 60))
        await trio.sleep(60)
        settling = len(backend.sent)
        await trio.sleep(120)
        halved = len(backend.sent)
        change(owner, LimitSpec("requests", 240))
        await trio.sleep(60)
        doubled = len(backend.sent)
        callers.cancel_scope.cancel()
    assert before == pytest.approx(240, abs=22)
    assert settling - before <= 60
    assert halved - settling == pytest.approx(120, abs=3)
    assert doubled - halved == pytest.approx(200, abs=42)


async def test_a_queued_call_that_became_too_large(autojump_clock: trio.testing.MockClock) -> None:
    """A call that waits and that the lowered limit could never admit ends at once, and says which limit it is."""
    backend = StagedBackend(step=STEP)
    ended: list[str] = []

    async def large(owner: Owner) -> None:
        try:
            await OwnerPort(owner.inbox, Flow("acme", "job", "large")).call(request(max_tokens=900))
        except TooLarge as error:
            ended.append(error.message)

    async with running(limited(backend, LimitSpec("total_tokens", 1000))) as owner, trio.open_nursery() as callers:
        await OwnerPort(owner.inbox, Flow("acme", "job", "first")).call(request(max_tokens=500))
        callers.start_soon(large, owner)
        callers.start_soon(large, owner)
        await trio.testing.wait_all_tasks_blocked()
        change(owner, LimitSpec("total_tokens", 500))
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) >= 1
    assert all("total_tokens/min" in message for message in ended)


async def test_weights_that_change(autojump_clock: trio.testing.MockClock) -> None:
    """Shares follow the new weights from the change on: 1 to 1 before, 3 to 1 after."""
    backend, seen = StagedBackend(step=0.1), Recorder()
    owner = one_endpoint(backend, slots=4, hooks=[seen])
    async with running(owner), trio.open_nursery() as callers:
        for run in range(400):
            callers.start_soon(lambda run=run: call(owner, run, tenant="left"))
            callers.start_soon(lambda run=run: call(owner, run, tenant="right"))
        await trio.sleep(20)
        early = [t.flow.tenant for t in seen.seen if t.kind == "started"]
        owner.prepare(DispatchConfig(tenants={"left": TenantConfig(weight=3.0)}), {})()
        await trio.sleep(30)
        late = [t.flow.tenant for t in seen.seen if t.kind == "started"][len(early) :]
        callers.cancel_scope.cancel()
    assert early.count("left") == pytest.approx(early.count("right"), abs=8)
    assert late.count("left") / late.count("right") == pytest.approx(3.0, rel=0.1)


async def test_a_tenants_own_limit_comes_and_goes(autojump_clock: trio.testing.MockClock) -> None:
    """A limit given to a tenant under way holds it, and taking it away lets everything go that was parked."""
    backend = StagedBackend(step=STEP)
    tenants = {
        "acme": TenantConfig(limits=(LimitSpec("requests", 6, burst_seconds=60),), in_flight=InFlightSpec(calls=2))
    }
    async with running(limited(backend)) as owner:
        change(owner, tenants=tenants)
        async with trio.open_nursery() as callers:
            for run in range(20):
                callers.start_soon(call, owner, run)
            await trio.sleep(30)
            assert len(backend.sent) == 6
            assert backend.peak == 2
            began = trio.current_time()
            change(owner)
        assert trio.current_time() - began < 1
    assert len(backend.sent) == 20


async def test_a_cap_on_priority_holds_for_what_comes_later(autojump_clock: trio.testing.MockClock) -> None:
    """A tenant whose highest priority was lowered gets no more than that from then on."""
    backend, seen = StagedBackend(), Recorder()
    owner = one_endpoint(backend, hooks=[seen])
    async with running(owner):
        port = OwnerPort(owner.inbox, Flow("acme"), Priority.INTERACTIVE)
        await port.call(request())
        owner.prepare(DispatchConfig(tenants={"acme": TenantConfig(highest_priority=Priority.BATCH)}), {})()
        await port.call(request())
    assert [t.priority for t in seen.seen if t.kind == "finished"] == [Priority.INTERACTIVE, Priority.BATCH]


async def test_fewer_slots_cut_nobody_off(autojump_clock: trio.testing.MockClock) -> None:
    """Lowering the concurrency lets live calls end, and from then on no more than the new number are in flight."""
    backend = StagedBackend(step=1)
    async with running(limited(backend)) as owner, trio.open_nursery() as callers:
        for run in range(30):
            callers.start_soon(call, owner, run)
        await trio.sleep(2.5)
        change(owner, slots=3)
        assert backend.busy == 30
        for run in range(30, 45):
            callers.start_soon(call, owner, run)
        await trio.sleep(10)
        assert 0 < backend.busy <= 3
    assert len(backend.sent) == 45
    assert backend.aborted == 0


async def test_what_makes_no_sense_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A limit given twice, or an endpoint that is not there, is refused before anything has changed."""
    backend = StagedBackend(step=STEP)
    twice = (LimitSpec("requests", 60), LimitSpec("requests", 30))
    async with running(limited(backend, LimitSpec("requests", 120))) as owner:
        before = owner.statistics()
        with pytest.raises(InvalidLimits, match="more than once"):
            owner.prepare(DispatchConfig(tenants={"acme": TenantConfig(limits=twice)}), {})
        with pytest.raises(InvalidLimits, match="no endpoint 'other'"):
            owner.prepare(DispatchConfig(), {"other": EndpointLimits()})
        assert owner.statistics() == before
        try:
            await call(owner, 1)
        except ModelError as error:
            pytest.fail(str(error))
