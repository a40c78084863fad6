"""The state of owners as gauges, read when a scrape comes.

The protocols name what is read, so that this needs no owner: anything that shows these numbers can be watched.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from prometheus_client.metrics_core import Metric

from agents.port import Priority
from orchestrator.instruments.books import TenantLabels
from orchestrator.instruments.families import gauge


class EndpointState(Protocol):
    """One endpoint: calls in flight, how many may be, its breaker, and each limit's part in use (0 to 1)."""

    @property
    def name(self) -> str: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def concurrency_limit(self) -> int: ...
    @property
    def breaker(self) -> str: ...
    @property
    def limits(self) -> Mapping[str, float]: ...


class TenantState(Protocol):
    """One tenant's queued calls, the most urgent priority first."""

    @property
    def queued_by_priority(self) -> tuple[int, ...]: ...


class BackendState(Protocol):
    """One owner. `fairness_spread` and `fairness_bound` are in weighted tokens per weight."""

    @property
    def backend(self) -> str: ...
    @property
    def waiting(self) -> int: ...
    @property
    def retrying(self) -> int: ...
    @property
    def endpoints(self) -> Sequence[EndpointState]: ...
    @property
    def tenants(self) -> Mapping[str, TenantState]: ...
    @property
    def tenant_limits(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def fairness_spread(self) -> float: ...
    @property
    def fairness_bound(self) -> float: ...


def state_gauges(states: Sequence[BackendState], labels: TenantLabels) -> Iterable[Metric]:
    """All gauges of these owners."""
    yield gauge(
        "queued_calls",
        "Calls that wait in an owner's queue.",
        ("backend", "tenant", "priority"),
        _queued(states, labels).items(),
    )
    yield gauge(
        "retrying_calls",
        "Calls that wait for their next attempt, outside the queue.",
        ("backend",),
        (((state.backend,), state.retrying) for state in states),
    )
    yield gauge(
        "inbox_calls",
        "Calls that are still before or in an owner's inbox.",
        ("backend",),
        (((state.backend,), state.waiting) for state in states),
    )
    yield from _endpoint_gauges(states)
    yield gauge(
        "tenant_limit_used_ratio",
        "Part of a tenant's own limit that is used or held.",
        ("backend", "tenant", "limit"),
        _most_used(states, labels).items(),
    )
    yield gauge(
        "fairness_spread_service",
        "Largest difference of service per weight between flows that were backlogged since the last scrape.",
        ("backend",),
        (((state.backend,), state.fairness_spread) for state in states),
    )
    yield gauge(
        "fairness_bound_service",
        "What that difference can be at most.",
        ("backend",),
        (((state.backend,), state.fairness_bound) for state in states),
    )


def _endpoint_gauges(states: Sequence[BackendState]) -> Iterable[Metric]:
    key = ("backend", "endpoint")
    endpoints = [((state.backend, endpoint.name), endpoint) for state in states for endpoint in state.endpoints]
    yield gauge(
        "in_flight_calls",
        "Calls in flight at an endpoint.",
        key,
        ((who, endpoint.in_flight) for who, endpoint in endpoints),
    )
    yield gauge(
        "concurrency_limit",
        "Calls that may be in flight at an endpoint now.",
        key,
        ((who, endpoint.concurrency_limit) for who, endpoint in endpoints),
    )
    yield gauge(
        "endpoint_closed_off",
        "1 while an endpoint's breaker lets nothing but probes pass, else 0.",
        key,
        ((who, float(endpoint.breaker != "closed")) for who, endpoint in endpoints),
    )
    yield gauge(
        "limit_used_ratio",
        "Part of an endpoint's limit that is used or held.",
        (*key, "limit"),
        (((*who, limit), used) for who, endpoint in endpoints for limit, used in endpoint.limits.items()),
    )


def _queued(states: Sequence[BackendState], labels: TenantLabels) -> dict[tuple[str, str, str], float]:
    """Tenants that share a label are added up."""
    queued: dict[tuple[str, str, str], float] = {}
    for state in states:
        for tenant, share in state.tenants.items():
            for priority, calls in zip(Priority, share.queued_by_priority, strict=False):
                key = (state.backend, labels.label(tenant), priority.name.lower())
                queued[key] = queued.get(key, 0) + calls
    return queued


def _most_used(states: Sequence[BackendState], labels: TenantLabels) -> dict[tuple[str, str, str], float]:
    """Of tenants that share a label the one nearest to its limit counts."""
    used: dict[tuple[str, str, str], float] = {}
    for state in states:
        for tenant, limits in state.tenant_limits.items():
            for limit, ratio in limits.items():
                key = (state.backend, labels.label(tenant), limit)
                used[key] = max(used.get(key, 0.0), ratio)
    return used
