"""How calls are ordered, as configuration: decoded whole, refused whole."""

import math
from collections.abc import Mapping

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.policy.run_order import Order

_PRIORITIES = len(Priority)


class FairConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How calls are ordered.

    `minimum_share` is the part of the service that each backlogged lower priority gets; `credit_calls` how far, in mean
    calls, a flow that becomes active may start behind the others. `order` is the rule inside a job, with `overtaking`
    in seconds and `put_back` in seconds per second that a run was served (see `run_order.py`). Weights are relative to
    1: `weights` by tenant, `job_weights` by "tenant/job". Raises `InvalidLimits`.
    """

    minimum_share: float = 0.05
    credit_calls: float = 3.0
    order: Order = "least_attained"
    weights: Mapping[str, float] = {}
    job_weights: Mapping[str, float] = {}
    overtaking: float = 600.0
    put_back: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.minimum_share <= 1.0 / _PRIORITIES:
            raise InvalidLimits("minimum_share", f"must be from 0 to 1/{_PRIORITIES}, is {self.minimum_share}")
        for field in ("credit_calls", "overtaking", "put_back"):
            value = getattr(self, field)
            if not 0.0 <= value < math.inf:
                raise InvalidLimits(field, f"must be a number from 0, is {value}")
        if self.order not in ("least_attained", "las", "fifo"):
            raise InvalidLimits("order", f"must be least_attained, las or fifo, is {self.order!r}")
        for name, weight in self.weights.items():
            _check_weight(f"weights.{name}", weight)
        for name, weight in self.job_weights.items():
            _check_weight(f"job_weights.{name}", weight)


def _check_weight(field: str, weight: float) -> None:
    if not 0.0 < weight < math.inf:
        raise InvalidLimits(field, f"must be a number above 0, is {weight}")


class Weights:
    """The weights in force, 1 where none is set: those of the configuration, and what was changed live since."""

    __slots__ = ("_jobs", "_tenants")

    def __init__(self, config: FairConfig) -> None:
        self._tenants = dict(config.weights)
        self._jobs = dict(config.job_weights)

    def tenant(self, tenant: str) -> float:
        return self._tenants.get(tenant, 1.0)

    def job(self, tenant: str, job: str) -> float:
        return self._jobs.get(f"{tenant}/{job}", 1.0) if self._jobs else 1.0

    def set_tenant(self, tenant: str, weight: float) -> None:
        """Raises `InvalidLimits`."""
        _check_weight(f"weights.{tenant}", weight)
        self._tenants[tenant] = weight

    def set_job(self, tenant: str, job: str, weight: float) -> None:
        """Raises `InvalidLimits`."""
        _check_weight(f"job_weights.{tenant}/{job}", weight)
        if weight == 1.0:
            self._jobs.pop(f"{tenant}/{job}", None)
        else:
            self._jobs[f"{tenant}/{job}"] = weight
