"""What is configured of one backend's policy, and of its tenants."""

from collections.abc import Mapping

from msgspec import Struct, field

from agents.port import Priority
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.checks import require
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.fair_config import FairConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from orchestrator.policy.retry import RetryConfig


class TenantConfig(Struct, frozen=True):
    """What a tenant may use of one backend. `highest_priority` caps what its calls may ask for."""

    weight: float = 1.0
    limits: tuple[LimitSpec, ...] = ()
    in_flight: InFlightSpec | None = None
    highest_priority: Priority = Priority.INTERACTIVE


class DispatchConfig(Struct, frozen=True):
    """The policy of one backend. Raises `InvalidLimits` for what makes no sense.

    `default_max_tokens` bounds a call that names none, in tokens; `sticky_seconds` is how long a run waits for the
    endpoint that served it before.
    """

    fair: FairConfig = field(default_factory=FairConfig)
    tenants: Mapping[str, TenantConfig] = {}
    weights: ServiceWeights = field(default_factory=ServiceWeights)
    retry: RetryConfig = field(default_factory=RetryConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    default_max_tokens: int = 4096
    sticky_seconds: float = 2.0

    def __post_init__(self) -> None:
        require("default_max_tokens", self.default_max_tokens, at_least=1)
        require("sticky_seconds", self.sticky_seconds)
