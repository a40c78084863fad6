"""What one backend's owner is made from: endpoints, policy, clocks."""

import random
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from orchestrator.attempt import Clocks
from orchestrator.backends.base import Backend
from orchestrator.policy.breaker import Breaker, BreakerConfig
from orchestrator.policy.concurrency import Concurrency, ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.estimate import Estimator
from orchestrator.policy.headroom import Headroom, HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSet, LimitSpec


class Endpoint(Struct, frozen=True):
    """One key or replica of a backend, and what it allows. `headroom` is for an engine that cannot order its queue."""

    name: str
    backend: Backend
    limits: tuple[LimitSpec, ...] = ()
    in_flight: InFlightSpec | None = None
    concurrency: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    headroom: HeadroomConfig | None = None


class EndpointLimits(Struct, frozen=True):
    """What may change of an endpoint while it is in use."""

    limits: tuple[LimitSpec, ...] = ()
    in_flight: InFlightSpec | None = None
    concurrency: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)


class OwnerConfig(Struct, frozen=True):
    """One backend's owner: its name in metrics and messages, its policy and its clocks."""

    name: str
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    clocks: Clocks = field(default_factory=Clocks)


def make_policy(config: OwnerConfig, endpoints: Sequence[Endpoint], rng: random.Random, now: float) -> Dispatcher:
    """The policy of one owner, with nothing in it yet. `now` is on the owner's clock."""
    weights = {name: tenant.weight for name, tenant in config.dispatch.tenants.items()}
    states = [
        EndpointState(
            index,
            endpoint.name,
            LimitSet(endpoint.limits, endpoint.in_flight, now=now),
            Concurrency(endpoint.concurrency),
            Breaker(endpoint.breaker),
            None if endpoint.headroom is None else Headroom(endpoint.headroom, weights),
        )
        for index, endpoint in enumerate(endpoints)
    ]
    return Dispatcher(config.dispatch, states, estimator=Estimator(), rng=rng, now=now)


def check_limits(dispatch: DispatchConfig, endpoints: Mapping[str, EndpointLimits]) -> None:
    """Raises `InvalidLimits` for limits that could not be put in force."""
    for tenant in dispatch.tenants.values():
        LimitSet(tenant.limits, tenant.in_flight)
    for endpoint in endpoints.values():
        LimitSet(endpoint.limits, endpoint.in_flight)
