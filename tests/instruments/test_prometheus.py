"""Metrics of calls, as a scrape sees them."""

import pytest
from msgspec import Struct
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from agents.messages import Usage
from orchestrator.instruments.books import OTHER, Distribution, TenantLabels
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.instruments.runs import RunMetrics
from tests.instruments.seen import call, samples, transition, value


class Endpoint(Struct):
    name: str
    in_flight: int
    concurrency_limit: int
    breaker: str
    limits: dict[str, float]
    limit_amounts: dict[str, float] = {}
    limit_others: dict[str, float] = {}
    cuts: int = 0


class Tenant(Struct):
    queued_by_priority: tuple[int, ...]
    weight: float = 1.0


class Backend(Struct):
    backend: str
    waiting: int
    retrying: int
    endpoints: list[Endpoint]
    tenants: dict[str, Tenant]
    tenant_limits: dict[str, dict[str, float]]
    fairness_spread: float
    fairness_bound: float
    held_by: str = ""
    held_seconds: dict[str, float] = {}
    oldest_waits: dict[str, float] = {}
    services: dict[str, float] = {}


BUSY = Backend(
    "main",
    waiting=3,
    retrying=2,
    endpoints=[Endpoint("one", 4, 8, "closed", {"requests": 0.5}), Endpoint("two", 0, 1, "open", {})],
    tenants={"blue": Tenant((0, 5, 1)), "red": Tenant((2, 0, 0)), "green": Tenant((0, 1, 0))},
    tenant_limits={"blue": {"requests": 0.2}, "red": {"requests": 0.9}, "green": {"requests": 0.4}},
    fairness_spread=120.0,
    fairness_bound=900.0,
)


def test_a_calls_way_is_counted() -> None:
    """One answered call appears once in every sum, with its waits and durations in the right buckets."""
    hook = PrometheusHook()
    call(hook)
    who = {"backend": "main", "tenant": "blue"}
    assert value(hook, "calls_total", **who, priority="standard", outcome="ok") == 1
    assert value(hook, "queue_wait_seconds_sum", **who, priority="standard") == 3.0
    assert value(hook, "queue_wait_seconds_bucket", **who, priority="standard", le="2.5") == 0
    assert value(hook, "queue_wait_seconds_bucket", **who, priority="standard", le="5.0") == 1
    assert value(hook, "time_to_first_token_seconds_count", backend="main", endpoint="one") == 1
    assert value(hook, "call_duration_seconds_sum", backend="main", priority="standard") == 5.0
    for type_, tokens in {"input": 100, "cached": 40, "output": 7}.items():
        assert value(hook, "tokens_total", **who, type=type_) == tokens
    assert value(hook, "usage_unreported_total", backend="main", endpoint="one") == 0


@pytest.mark.parametrize(
    ("outcome", "upstream"), [("throttled", True), ("overloaded", True), ("refused", True), ("caller_gone", False)]
)
def test_R26_errors_are_counted_by_kind(outcome: str, upstream: bool) -> None:
    """Each kind of failure has its own label, and what is not the endpoint's doing is not counted against it."""
    hook = PrometheusHook()
    call(hook, outcome=outcome)
    assert value(hook, "calls_total", backend="main", tenant="blue", priority="standard", outcome=outcome) == 1
    key = ("headrace_upstream_errors_total", frozenset({"backend": "main", "endpoint": "one", "kind": outcome}.items()))
    assert (key in samples(hook)) is upstream


def test_retries_are_counted() -> None:
    """A retry is one by the kind of error that led to it."""
    hook = PrometheusHook()
    hook(transition("retrying", outcome="throttled"))
    assert value(hook, "retries_total", backend="main", tenant="blue", kind="throttled") == 1


def test_R20_unknown_usage_is_not_zero_tokens() -> None:
    """An answer whose tokens the provider did not report adds none, and is counted as unreported."""
    hook = PrometheusHook()
    hook(transition("finished", outcome="ok", usage=Usage(output=5)))
    hook(transition("finished", outcome="ok"))
    assert value(hook, "usage_unreported_total", backend="main", endpoint="one") == 2
    assert value(hook, "tokens_total", backend="main", tenant="blue", type="output") == 5
    assert not any(("type", "input") in labels for _, labels in samples(hook))


def test_cost_is_in_dollars() -> None:
    """Micro-dollars of attempts add up to dollars; an unknown cost adds nothing."""
    costs = iter([1_500_000, None, 250_000])
    hook = PrometheusHook(cost=lambda _: next(costs))
    for _ in range(3):
        hook(transition("finished", outcome="ok", usage=Usage(input=1, output=1)))
    assert value(hook, "cost_dollars_total", backend="main", tenant="blue") == pytest.approx(1.75)


def test_tenants_beyond_the_cap_share_a_label() -> None:
    """With room for two names the third tenant and all later ones are counted together, and nothing is lost."""
    hook = PrometheusHook(TenantLabels(2, known=["configured"]))
    for tenant in ["a", "b", "c", "configured", "a", "b"]:
        call(hook, tenant)
    counted = {
        dict(labels)["tenant"]: number
        for (name, labels), number in samples(hook).items()
        if name.endswith("calls_total")
    }
    assert counted == {"a": 2, OTHER: 3, "configured": 1}


def test_no_run_and_no_job_becomes_a_label() -> None:
    """Neither the run's nor the job's name appears anywhere in the exposition."""
    hook = PrometheusHook()
    call(hook)
    text = hook.exposition().decode()
    assert "run-77" not in text
    assert "job-1" not in text


def test_state_is_read_at_the_scrape() -> None:
    """Queues, limits, concurrency and fairness are what the owner shows at that moment, not what was pushed before."""
    hook, state = PrometheusHook(), BUSY
    hook.watch(lambda: state)
    assert value(hook, "queued_calls", backend="main", tenant="blue", priority="batch") == 1
    assert value(hook, "in_flight_calls", backend="main", endpoint="one") == 4
    assert value(hook, "concurrency_limit", backend="main", endpoint="one") == 8
    assert value(hook, "limit_used_ratio", backend="main", endpoint="one", limit="requests") == 0.5
    assert value(hook, "endpoint_closed_off", backend="main", endpoint="two") == 1
    assert value(hook, "fairness_spread_service", backend="main") == 120
    assert value(hook, "fairness_bound_service", backend="main") == 900
    assert value(hook, "retrying_calls", backend="main") == 2
    state = Backend("main", 0, 0, [], {}, {}, 0.0, 0.0)
    assert value(hook, "fairness_bound_service", backend="main") == 0


def test_gauges_of_tenants_that_share_a_label_are_joined() -> None:
    """Their queues add up, and of their limits the one nearest to its end counts."""
    hook = PrometheusHook(TenantLabels(1))
    hook.watch(lambda: BUSY)
    assert value(hook, "queued_calls", backend="main", tenant=OTHER, priority="interactive") == 2
    assert value(hook, "queued_calls", backend="main", tenant=OTHER, priority="standard") == 1
    assert value(hook, "tenant_limit_used_ratio", backend="main", tenant=OTHER, limit="requests") == 0.9


def test_names_carry_prefix_and_base_units() -> None:
    """Every exposed family begins with `headrace_`, and no unit but a base unit appears."""
    hook = PrometheusHook(cost=lambda _: 1)
    hook.watch(lambda: BUSY)
    RunMetrics(hook.registry)
    call(hook)
    names = {family.name for family in text_string_to_metric_families(hook.exposition().decode())}
    assert all(name.startswith("headrace_") for name in names)
    assert not any(unit in name for name in names for unit in ("_ms", "_millis", "_minutes", "_cents"))


def test_S11_reset_sets_everything_back() -> None:
    """Resetting twice, metrics without labels included, raises nothing; counts start anew, owners stay connected."""
    hook = PrometheusHook()
    runs = RunMetrics(hook.registry)
    turn = hook.on_turn
    for _ in range(2):
        call(hook)
        turn(0.002)
        runs.appended(0.1)
        assert value(hook, "owner_loop_seconds_count") == 1
        hook.reset()
        runs.reset()
        assert value(hook, "owner_loop_seconds_count") == 0
        assert value(hook, "log_append_seconds_count") == 0
        assert not any(name == "headrace_calls_total" for name, _ in samples(hook))


def test_the_global_registry_stays_untouched() -> None:
    """Two hooks live in one process, and the library's default registry knows neither."""
    one, two = PrometheusHook(), PrometheusHook()
    call(one)
    assert not any(name == "headrace_calls_total" for name, _ in samples(two))
    assert not any(family.name.startswith("headrace_") for family in REGISTRY.collect())


def test_a_value_on_a_bound_belongs_to_its_bucket() -> None:
    """Buckets are cumulative and include their bound, as the format wants it."""
    distribution = Distribution((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 99.0):
        distribution.observe(seconds)
    assert distribution.buckets() == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert distribution.total == 102.0
