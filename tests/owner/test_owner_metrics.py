"""Metrics of a real owner, scraped while it works."""

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import LimitSpec
from tests.owner.staged import StagedBackend, request, running


def scrape(hook: PrometheusHook, name: str) -> dict[str, float]:
    """The samples of one name, by the values of their labels, in order of the labels' names, joined with a slash."""
    return {
        "/".join(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(hook.exposition().decode())
        for sample in family.samples
        if sample.name == f"headrace_{name}"
    }


async def test_a_scrape_shows_who_waits_and_what_is_used(autojump_clock: trio.testing.MockClock) -> None:
    """With one slot and three calls the scrape shows one in flight, the others queued by tenant and priority, and the
    limits in use; when all is over the queue is empty and every call is counted once."""
    hook = PrometheusHook()
    owner = Owner(
        OwnerConfig("main", DispatchConfig(tenants={"red": TenantConfig(limits=(LimitSpec("requests", 100),))})),
        [
            Endpoint(
                "one",
                StagedBackend(),
                limits=(LimitSpec("requests", 10),),
                concurrency=ConcurrencyConfig(fixed=1),
            )
        ],
        hooks=[hook],
        on_turn=hook.on_turn,
    )
    hook.watch(owner.statistics)
    async with running(owner), trio.open_nursery() as callers:
        for tenant, priority in (("red", Priority.STANDARD), ("red", Priority.BATCH), ("blue", Priority.STANDARD)):
            callers.start_soon(OwnerPort(owner.inbox, Flow(tenant), priority).call, request())
            await trio.testing.wait_all_tasks_blocked()
        assert scrape(hook, "in_flight_calls") == {"main/one": 1}
        assert scrape(hook, "concurrency_limit") == {"main/one": 1}
        queued = scrape(hook, "queued_calls")
        assert {who: calls for who, calls in queued.items() if calls} == {"main/batch/red": 1, "main/standard/blue": 1}
        assert list(scrape(hook, "limit_used_ratio").values()) == [pytest.approx(0.1)]
        assert list(scrape(hook, "tenant_limit_used_ratio").values()) == [pytest.approx(0.01)]
    text = hook.exposition().decode()
    assert sum(scrape(hook, "calls_total").values()) == 3
    assert scrape(hook, "tokens_total")["main/red/output"] == 4
    assert scrape(hook, "owner_loop_seconds_count")[""] > 3
    assert not any(scrape(hook, "queued_calls").values())
    assert "headrace_fairness_bound_service{" in text
