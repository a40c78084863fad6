"""What a scrape shows of an owner's queue, its limits and its tenants, through a real owner in virtual time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from agents.errors import ModelError
from agents.messages import Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.simulated.backend import SimConfig, SimLimit, SimProvider, SimulatedBackend
from orchestrator.instruments.books import OTHER, TenantLabels
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec


class Watched:
    """An owner at work, and what a scrape shows of it."""

    def __init__(self, owner: Owner, hook: PrometheusHook) -> None:
        self._owner = owner
        self._hook = hook

    def shown(self, name: str) -> dict[str, float]:
        """The samples of one name, by the values of their labels."""
        return {
            "/".join(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self._hook.exposition().decode())
            for sample in family.samples
            if sample.name == f"headrace_{name}"
        }

    async def call(self, tenant: str, number: int = 0) -> None:
        port = OwnerPort(self._owner.inbox, Flow(tenant, "job", f"{tenant}-{number}"))
        with suppress(ModelError):
            await port.call(ModelRequest("sim", (Message("user", f"{tenant} {number}"),), max_tokens=20))


@asynccontextmanager
async def watched(
    provider: SimConfig | None = None,
    *,
    limits: Sequence[LimitSpec] = (),
    concurrency: ConcurrencyConfig | None = None,
    tenants: dict[str, TenantConfig] | None = None,
    labels: TenantLabels | None = None,
) -> AsyncIterator[Watched]:
    backend = SimulatedBackend("sim", SimProvider(provider or SimConfig(exact_tokens=True)))
    endpoint = Endpoint("one", backend, tuple(limits), concurrency=concurrency or ConcurrencyConfig(fixed=64))
    hook = PrometheusHook(labels)
    owner = Owner(OwnerConfig("main", DispatchConfig(tenants=tenants or {})), [endpoint], hooks=[hook])
    hook.watch(owner.statistics)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        yield Watched(owner, hook)
        nursery.cancel_scope.cancel()


async def test_who_waits_for_what_is_seen_while_it_waits(autojump_clock: trio.testing.MockClock) -> None:
    """Behind a full limit the scrape names it, how long the oldest call has waited, and at the end for what all did."""
    async with watched(limits=[LimitSpec("requests", 2, 60.0)]) as seen:
        assert set(seen.shown("queue_held_seconds_total").values()) == {0.0}
        assert seen.shown("backend_held")["main/nothing"] == 1
        async with trio.open_nursery() as calls:
            for number in range(4):
                calls.start_soon(seen.call, "blue", number)
            await trio.sleep(20)
            held = [name for name, on in seen.shown("backend_held").items() if on]
            assert held == [f"main/{limit.split('/', 2)[2]}" for limit in seen.shown("limit_amount")]
            assert seen.shown("oldest_queued_seconds") == {"main/blue": pytest.approx(20, abs=1)}
            assert set(seen.shown("limit_amount").values()) == {2}
        assert seen.shown("backend_held")[held[0]] == 0
        assert seen.shown("backend_held")["main/nothing"] == 1
        assert seen.shown("oldest_queued_seconds") == {"main/blue": 0}
        waited = sum(seen.shown("queue_wait_seconds_sum").values())
        assert waited > 60
        assert seen.shown("queue_held_seconds_total")[held[0]] == pytest.approx(waited, abs=1)


async def test_a_tenant_at_its_own_limit_is_not_named_as_what_holds(autojump_clock: trio.testing.MockClock) -> None:
    """Where a tenant's own limit holds its calls that is said of all tenants together."""
    tenants = {"blue": TenantConfig(limits=(LimitSpec("requests", 1, 60.0),))}
    async with watched(tenants=tenants) as seen:
        async with trio.open_nursery() as calls:
            for number in range(2):
                calls.start_soon(seen.call, "blue", number)
        held = seen.shown("queue_held_seconds_total")
    assert held["main/tenant_limit"] > 30
    assert not any("blue" in name for name in held)


async def test_a_cut_is_counted_with_what_caused_it(autojump_clock: trio.testing.MockClock) -> None:
    """A provider that refuses what comes at once cuts the concurrency; both counters stood at 0 before."""
    provider = SimConfig(exact_tokens=True, max_concurrency=2)
    async with watched(provider, concurrency=ConcurrencyConfig(initial=8)) as seen:
        assert seen.shown("concurrency_cuts_total") == {"main/one": 0}
        assert seen.shown("upstream_errors_total")["main/one/throttled"] == 0
        async with trio.open_nursery() as calls:
            for number in range(8):
                calls.start_soon(seen.call, "blue", number)
        assert seen.shown("concurrency_cuts_total")["main/one"] >= 1
        assert seen.shown("upstream_errors_total")["main/one/throttled"] >= 1
        assert seen.shown("concurrency_limit")["main/one"] < 8


async def test_what_the_provider_takes_away_is_seen(autojump_clock: trio.testing.MockClock) -> None:
    """Where a limit is smaller at the provider than here, the part that is not there shows with its answers."""
    provider = SimConfig(exact_tokens=True, limits=(SimLimit(kind="requests", amount=20),))
    async with watched(provider, limits=[LimitSpec("requests", 100, 60.0)]) as seen:
        assert set(seen.shown("limit_others_ratio").values()) == {0}
        for number in range(3):
            await seen.call("blue", number)
        assert list(seen.shown("limit_others_ratio").values()) == [pytest.approx(0.8)]
        assert set(seen.shown("limit_amount").values()) == {100}


async def test_weights_and_service_are_by_tenant(autojump_clock: trio.testing.MockClock) -> None:
    """Each tenant with calls shows its weight while it has some, and the service it has had for good."""
    async with watched(tenants={"blue": TenantConfig(weight=3)}, concurrency=ConcurrencyConfig(fixed=1)) as seen:
        async with trio.open_nursery() as calls:
            for number in range(3):
                for tenant in ("blue", "red"):
                    calls.start_soon(seen.call, tenant, number)
            await trio.testing.wait_all_tasks_blocked()
            assert seen.shown("tenant_weight") == {"main/blue": 3, "main/red": 1}
        service = seen.shown("tenant_service_total")
        assert service["main/blue"] > 0
        assert service["main/red"] > 0
        await seen.call("red", 4)
        assert seen.shown("tenant_service_total")["main/red"] > service["main/red"]
        assert seen.shown("tenant_service_total")["main/blue"] == service["main/blue"]


async def test_names_of_tenants_cannot_grow_or_break_the_metrics(autojump_clock: trio.testing.MockClock) -> None:
    """Of 3,000 tenants with quotes, line ends and braces in their names a few have labels, and all can be read."""
    async with watched(labels=TenantLabels(5)) as seen:
        async with trio.open_nursery() as calls:
            for number in range(3000):
                calls.start_soon(seen.call, f'x"}} 1\n# HELP \\{number}\nheadrace_draining')
        for name in ("calls_total", "tenant_service_total", "queue_wait_seconds_count"):
            rows = seen.shown(name)
            assert len(rows) == 6, name
            assert [row for row in rows if OTHER in row.split("/")], name
        assert sum(seen.shown("calls_total").values()) == 3000
        assert len(seen.shown("queued_calls")) <= 6 * 3
        assert len(seen.shown("tenant_weight")) <= 6
