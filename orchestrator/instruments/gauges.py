"""The state of owners as gauges, read when a scrape comes.

The protocols name what is read, so that this needs no owner: anything that shows these numbers can be watched.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from prometheus_client.metrics_core import Metric

from agents.port import Priority
from orchestrator.instruments.books import OTHER, TenantLabels
from orchestrator.instruments.families import counter, gauge


class EndpointState(Protocol):
    """One endpoint: calls in flight, how many may be and how often that was cut, its breaker; of each limit the part in
    use (0 to 1), the part that others use, and the whole.
    """

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
    @property
    def limit_amounts(self) -> Mapping[str, float]: ...
    @property
    def limit_others(self) -> Mapping[str, float]: ...
    @property
    def cuts(self) -> int: ...


class TenantState(Protocol):
    """One tenant's weight, and its queued calls, the most urgent priority first."""

    @property
    def weight(self) -> float: ...
    @property
    def queued_by_priority(self) -> tuple[int, ...]: ...


class BackendState(Protocol):
    """One owner. `fairness_spread` and `fairness_bound` are in weighted tokens per weight. `services` are in weighted
    tokens; there the empty name stands for tenants that are not known by name any more.
    """

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
    @property
    def held_by(self) -> str: ...
    @property
    def held_seconds(self) -> Mapping[str, float]: ...
    @property
    def oldest_waits(self) -> Mapping[str, float]: ...
    @property
    def services(self) -> Mapping[str, float]: ...


NOTHING = "nothing"
"""Holds a call that may go."""


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
    yield from _waits(states, labels)
    yield from _endpoint_gauges(states)
    yield from _tenant_gauges(states, labels)
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


def _waits(states: Sequence[BackendState], labels: TenantLabels) -> Iterable[Metric]:
    yield counter(
        "queue_held_seconds_total",
        "Seconds that calls have waited, by what held whoever was next: a limit, fair_order, retry, tenant_limit.",
        ("backend", "held_by"),
        (((state.backend, what), seconds) for state in states for what, seconds in state.held_seconds.items()),
    )
    yield gauge(
        "backend_held",
        "1 for what holds the call that would go next, or for nothing.",
        ("backend", "held_by"),
        (((state.backend, what), on) for state in states for what, on in _held_now(state)),
    )
    oldest = {(state.backend, labels.label(tenant)): 0.0 for state in states for tenant in state.tenants}
    for state in states:
        for tenant, seconds in state.oldest_waits.items():
            key = (state.backend, labels.label(tenant))
            oldest[key] = max(oldest.get(key, 0.0), seconds)
    yield gauge(
        "oldest_queued_seconds",
        "How long the call has waited that has waited longest; 0 where none waits.",
        ("backend", "tenant"),
        oldest.items(),
    )


def _held_now(state: BackendState) -> Iterable[tuple[str, float]]:
    """Everything that has ever held a call, so that none of them keeps its 1 when it is over."""
    holds = state.held_by or NOTHING
    names = {**dict.fromkeys(state.held_seconds), NOTHING: None, holds: None}
    return ((name, float(name == holds)) for name in names)


def _tenant_gauges(states: Sequence[BackendState], labels: TenantLabels) -> Iterable[Metric]:
    weights: dict[tuple[str, str], float] = {}
    services: dict[tuple[str, str], float] = {}
    for state in states:
        for tenant, share in state.tenants.items():
            weights[state.backend, labels.label(tenant)] = share.weight
        for tenant, service in state.services.items():
            key = (state.backend, labels.label(tenant) if tenant else OTHER)
            services[key] = services.get(key, 0.0) + service
    yield gauge(
        "tenant_weight", "Weight of a tenant, by which it shares the backend.", ("backend", "tenant"), weights.items()
    )
    yield counter(
        "tenant_service_total",
        "Service that a tenant has had, in weighted tokens (output counts more than input, cached input less).",
        ("backend", "tenant"),
        services.items(),
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
    yield gauge(
        "limit_amount",
        "An endpoint's limit as configured, in its own unit for its own span.",
        (*key, "limit"),
        (((*who, limit), amount) for who, endpoint in endpoints for limit, amount in endpoint.limit_amounts.items()),
    )
    yield gauge(
        "limit_others_ratio",
        "Part of an endpoint's limit that others with the same key use, or that the provider has taken away.",
        (*key, "limit"),
        (((*who, limit), part) for who, endpoint in endpoints for limit, part in endpoint.limit_others.items()),
    )
    yield counter(
        "concurrency_cuts_total",
        "How often the number of calls in flight at an endpoint was cut after a refusal.",
        key,
        ((who, endpoint.cuts) for who, endpoint in endpoints),
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
