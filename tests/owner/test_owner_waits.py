"""An owner says of each call what it waited for."""

from collections.abc import Mapping
from contextlib import suppress

import pytest
import trio
import trio.testing

from agents.errors import ModelError
from agents.messages import Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.simulated.backend import SimProvider, SimulatedBackend
from orchestrator.backends.simulated.config import FaultRule, SimConfig
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Transition


async def played(
    seen: list[Transition],
    *,
    tenants: tuple[str, ...] = ("blue",),
    each: int = 1,
    faults: tuple[FaultRule, ...] = (),
    limits: tuple[LimitSpec, ...] = (),
    slots: int = 64,
    own: Mapping[str, TenantConfig] | None = None,
) -> None:
    """So many calls of each tenant at once; returns when all have ended."""
    provider = SimProvider(SimConfig(faults=faults, exact_tokens=True))
    endpoint = Endpoint("sim", SimulatedBackend("sim", provider), limits, concurrency=ConcurrencyConfig(fixed=slots))
    owner = Owner(OwnerConfig("sim", DispatchConfig(tenants=dict(own or {}))), [endpoint], hooks=[seen.append])

    async def call(tenant: str, number: int) -> None:
        port = OwnerPort(owner.inbox, Flow(tenant, "job", f"{tenant}-{number}"))
        with suppress(ModelError):
            await port.call(ModelRequest("sim", (Message("user", f"{tenant} {number}"),), max_tokens=20))

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        async with trio.open_nursery() as calls:
            for tenant in tenants:
                for number in range(each):
                    calls.start_soon(call, tenant, number)
        nursery.cancel_scope.cancel()


def ended(seen: list[Transition], tenant: str = "blue") -> list[dict[str, float]]:
    return [dict(one.waits) for one in seen if one.kind == "finished" and one.flow.tenant == tenant]


async def test_a_full_limit_is_named(autojump_clock: trio.testing.MockClock) -> None:
    """Of ten calls at two requests a minute the last has waited minutes, all of it for that limit."""
    seen: list[Transition] = []
    await played(seen, each=10, limits=(LimitSpec("requests", 2, 60.0),))
    last = max(ended(seen), key=lambda waits: sum(waits.values()))
    assert set(last) == {"requests/min"}
    assert last["requests/min"] > 180


async def test_busy_slots_are_named(autojump_clock: trio.testing.MockClock) -> None:
    """Calls behind one slot wait for calls in flight, for as long as they say they waited."""
    seen: list[Transition] = []
    await played(seen, each=5, slots=1)
    for one in seen:
        if one.kind == "finished" and one.waited > 0.05:
            assert dict(one.waits) == {"calls in flight": pytest.approx(one.waited)}
    assert sum(bool(waits) for waits in ended(seen)) == 4


async def test_a_tenants_own_limit_is_its_own(autojump_clock: trio.testing.MockClock) -> None:
    """A tenant at a limit of its own waits for that, and its neighbour waits for nothing."""
    seen: list[Transition] = []
    own = {"blue": TenantConfig(limits=(LimitSpec("requests", 2, 60.0),))}
    await played(seen, tenants=("blue", "red"), each=4, own=own)
    assert ended(seen, "red") == [{}] * 4
    assert {name for waits in ended(seen) for name in waits} == {"tenant requests/min"}


async def test_the_time_between_attempts_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """A call that failed once and was tried again has waited for its retry."""
    seen: list[Transition] = []
    await played(seen, faults=(FaultRule(fault="status", status=503, nth=(1,)),))
    (waits,) = ended(seen)
    assert waits["retry"] > 0.05


async def test_two_tenants_wait_for_the_limit_and_for_each_other(autojump_clock: trio.testing.MockClock) -> None:
    """Of two tenants behind one slot each waits about half for it and half for the other's turns."""
    seen: list[Transition] = []
    await played(seen, tenants=("blue", "red"), each=20, slots=1)
    for tenant in ("blue", "red"):
        last = max(ended(seen, tenant), key=lambda waits: sum(waits.values()))
        assert set(last) == {"calls in flight", "fair_order"}
        assert last["fair_order"] / sum(last.values()) == pytest.approx(0.5, abs=0.1)
    for one in seen:
        if one.kind == "finished" and one.waited > 0.05:
            assert sum(seconds for _, seconds in one.waits) == pytest.approx(one.waited)
