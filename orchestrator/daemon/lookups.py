"""What the HTTP surface and jobs ask a daemon of its models and tenants."""

from collections.abc import Callable

import trio

from agents.port import Priority
from orchestrator.catalogue import ANY_MODEL, Catalogue
from orchestrator.daemon.owners import Owners
from orchestrator.policy.allowance import Allowances, allowances
from orchestrator.router import Router


class Lookups:
    """Answers by what is known at the moment."""

    def __init__(self, router: Router, owners: Owners, catalogue: Callable[[], Catalogue]) -> None:
        self._router = router
        self._owners = owners
        self._catalogue = catalogue

    def model(self, name: str) -> str:
        """What a request that names a model so is about. Raises `UnknownModel`."""
        self._router.targets(name)
        return name or self._catalogue().default_model

    def max_output(self, model: str) -> int | None:
        """The most tokens that an answer of the model can have; None where that is not configured."""
        catalogue = self._catalogue()
        return catalogue.max_output.get(model if model in catalogue.models else ANY_MODEL)

    def allowances(self, model: str, tenant: str) -> Allowances:
        """What the tenant has left at the backend that the model's calls go to first."""
        owner = self._owners.by_name.get(self._router.targets(model)[0].backend)
        return {} if owner is None else allowances(owner.policy, tenant, trio.current_time())

    def priority(self, tenant: str, wanted: Priority | None) -> Priority:
        """What a tenant's work gets that asks for `wanted`."""
        return self._catalogue().priority(tenant, wanted)

    def weigh(self, tenant: str, job: str, weight: float) -> None:
        """Puts a job's weight in force."""
        for owner in self._owners.by_name.values():
            owner.policy.fair.set_job_weight(tenant, job, weight)

    def attempts(self) -> int:
        """How many tries a call has at most."""
        return max(owner.config.dispatch.retry.attempts for owner in self._owners.by_name.values())
