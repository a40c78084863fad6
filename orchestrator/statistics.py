"""What an owner shows of itself at one moment: plain data for metrics, tables and a person at a prompt."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from orchestrator.policy.breaker import BreakerState
from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.fairness import TenantShare
from orchestrator.policy.waits import FAIR_ORDER, RETRY, TENANT_LIMIT


class EndpointStatistics(Struct, frozen=True):
    """One endpoint. `limits` maps a limit's name to the part of it in use, from 0 to 1.

    `limit_amounts` has the limits as configured, `limit_others` the part of each that is not ours to use: what others
    with the same key are believed to use, and what the provider has taken away. `cuts` counts how often the concurrency
    was cut.
    """

    name: str
    in_flight: int
    concurrency_limit: int
    breaker: BreakerState
    limits: Mapping[str, float]
    limit_amounts: Mapping[str, float] = {}
    limit_others: Mapping[str, float] = {}
    cuts: int = 0


class OwnerStatistics(Struct, frozen=True):
    """One backend's owner.

    `waiting` callers are still before the inbox or in it; `held` calls are known to the owner: queued, live, or waiting
    for a retry. `fairness_spread` and `fairness_bound` are in service units per weight (see `policy.fairness`), for
    the flows that had calls queued ever since statistics were last taken.

    `held_by` is what holds the call that would go next: a limit, `tenant_limit`, or nothing. `held_seconds` is for how
    long calls have waited so far, by what held them: limits, `fair_order`, `retry`, `tenant_limit`; a call counts when
    its wait is over. `oldest_waits` has the seconds that the longest waiting call of each tenant has waited, for those
    that have one. `services` is the service that each tenant has had so far, in weighted tokens; it never falls, and
    the empty name stands for tenants beyond those that are known by name.
    """

    backend: str
    waiting: int
    held: int
    queued: int
    live: int
    retrying: int
    endpoints: Sequence[EndpointStatistics]
    tenants: Mapping[str, TenantShare]
    tenant_limits: Mapping[str, Mapping[str, float]]
    fairness_spread: float
    fairness_bound: float
    held_by: str = ""
    held_seconds: Mapping[str, float] = {}
    oldest_waits: Mapping[str, float] = {}
    services: Mapping[str, float] = {}


def take_statistics(
    backend: str, policy: Dispatcher, *, waiting: int, held: int, live: int, now: float
) -> OwnerStatistics:
    """Reads the policy's counters; costs O(tenants)."""
    spread, bound = policy.fair.spread_and_bound()
    queued = len(policy.fair)
    tenants = policy.fair.tenants()
    return OwnerStatistics(
        backend=backend,
        waiting=waiting,
        held=held,
        queued=queued,
        live=live,
        retrying=held - queued - live,
        endpoints=[_endpoint(endpoint, now) for endpoint in policy.endpoints],
        tenants=tenants,
        tenant_limits={name: limits.used(now) for name, limits in policy.tenant_limits.items()},
        fairness_spread=spread,
        fairness_bound=bound,
        held_by=policy.held_by,
        held_seconds=_held_seconds(policy),
        services=policy.accounts.services(),
        oldest_waits={name: max(0.0, now - share.queued_since) for name, share in tenants.items() if share.queued},
    )


def _held_seconds(policy: Dispatcher) -> dict[str, float]:
    """With the reasons that every backend has from the start."""
    windows = (window.name for endpoint in policy.endpoints for window in endpoint.limits.windows)
    known = dict.fromkeys((FAIR_ORDER, RETRY, TENANT_LIMIT, "calls in flight", *windows), 0.0)
    return {**known, **policy.reasons.held_seconds}


def _endpoint(endpoint: EndpointState, now: float) -> EndpointStatistics:
    return EndpointStatistics(
        name=endpoint.name,
        in_flight=endpoint.concurrency.in_flight,
        concurrency_limit=endpoint.concurrency.limit,
        breaker=endpoint.breaker.state(now),
        limits=endpoint.limits.used(now),
        limit_amounts={window.name: float(window.spec.amount) for window in endpoint.limits.windows},
        limit_others={window.name: window.withheld(now) for window in endpoint.limits.windows},
        cuts=endpoint.concurrency.cuts,
    )
