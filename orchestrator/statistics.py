"""What an owner shows of itself at one moment: plain data for metrics, tables and a person at a prompt."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from orchestrator.policy.breaker import BreakerState
from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.fairness import TenantShare


class EndpointStatistics(Struct, frozen=True):
    """One endpoint. `limits` maps a limit's name to the part of it in use, from 0 to 1."""

    name: str
    in_flight: int
    concurrency_limit: int
    breaker: BreakerState
    limits: Mapping[str, float]


class OwnerStatistics(Struct, frozen=True):
    """One backend's owner.

    `waiting` callers are still before the inbox or in it; `held` calls are known to the owner: queued, live, or waiting
    for a retry. `fairness_spread` and `fairness_bound` are in service units per weight (see `policy.fairness`), for
    the flows that had calls queued ever since statistics were last taken.
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


def take_statistics(
    backend: str, policy: Dispatcher, *, waiting: int, held: int, live: int, now: float
) -> OwnerStatistics:
    """Reads the policy's counters; costs O(tenants)."""
    spread, bound = policy.fair.spread_and_bound()
    queued = len(policy.fair)
    return OwnerStatistics(
        backend=backend,
        waiting=waiting,
        held=held,
        queued=queued,
        live=live,
        retrying=held - queued - live,
        endpoints=[_endpoint(endpoint, now) for endpoint in policy.endpoints],
        tenants=policy.fair.tenants(),
        tenant_limits={name: limits.used(now) for name, limits in policy.tenant_limits.items()},
        fairness_spread=spread,
        fairness_bound=bound,
    )


def _endpoint(endpoint: EndpointState, now: float) -> EndpointStatistics:
    return EndpointStatistics(
        name=endpoint.name,
        in_flight=endpoint.concurrency.in_flight,
        concurrency_limit=endpoint.concurrency.limit,
        breaker=endpoint.breaker.state(now),
        limits=endpoint.limits.used(now),
    )
