"""What one backend's owner is made from: endpoints, policy, clocks."""

from msgspec import Struct, field

from orchestrator.attempt import Clocks
from orchestrator.backends.base import Backend
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec


class Endpoint(Struct, frozen=True):
    """One key or replica of a backend, and what it allows. `headroom` is for an engine that cannot order its queue."""

    name: str
    backend: Backend
    limits: tuple[LimitSpec, ...] = ()
    in_flight: InFlightSpec | None = None
    concurrency: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    headroom: HeadroomConfig | None = None


class OwnerConfig(Struct, frozen=True):
    """One backend's owner: its name in metrics and messages, its policy and its clocks."""

    name: str
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    clocks: Clocks = field(default_factory=Clocks)
