"""A hook that counts for people: calls, tokens and waits per tenant, and how service was shared under load.

Kept small on purpose: a number or two per tenant and one entry per open run. A run has one call at a time, so its flow
names the call.

The share of service is counted while **all** the tenants named to it had calls waiting, since only then does a weight
say anything. A call belongs to that time if it was dispatched in it; its tokens are known, and counted, when it ends.
"""

from collections.abc import Sequence

from msgspec import Struct

from agents.messages import Usage
from agents.port import Flow
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.transitions import Transition


class TenantTally(Struct):
    """One tenant's sums. Waits are in seconds and in queue, over all attempts; `service` is in weighted tokens."""

    calls: int = 0
    failed: int = 0
    retries: int = 0
    usage: Usage = Usage()
    waited: float = 0.0
    longest_wait: float = 0.0
    waiting: int = 0
    contended_calls: int = 0
    contended_service: float = 0.0

    @property
    def mean_wait(self) -> float:
        ended = self.calls + self.failed
        return self.waited / ended if ended else 0.0


class Tally:
    """Implements `orchestrator.transitions.Hook`. `tenants` are those whose backlog counts for the shares."""

    def __init__(self, tenants: Sequence[str] = (), weights: ServiceWeights | None = None) -> None:
        self._weights = weights or ServiceWeights()
        self._watched = tuple(tenants)
        self._waiting: set[Flow] = set()
        self._live: set[Flow] = set()
        self._contended: set[Flow] = set()
        self.tenants: dict[str, TenantTally] = {name: TenantTally() for name in tenants}

    def __repr__(self) -> str:
        return f"<Tally {len(self._waiting)} waiting, {len(self._live)} in flight, {len(self.tenants)} tenants>"

    @property
    def waiting(self) -> int:
        """Calls in queue or waiting to be tried again."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._live)

    @property
    def usage(self) -> Usage:
        """Tokens reported so far, by every attempt of every tenant."""
        total = Usage()
        for tenant in self.tenants.values():
            total += tenant.usage
        return total

    @property
    def contended_share(self) -> dict[str, float]:
        """Each watched tenant's part of the service given while all of them waited; empty if they never did."""
        total = sum(self.tenants[name].contended_service for name in self._watched)
        if not total:
            return {}
        return {name: self.tenants[name].contended_service / total for name in self._watched}

    def __call__(self, transition: Transition) -> None:
        flow = transition.flow
        tenant = self.tenants.get(flow.tenant)
        if tenant is None:
            tenant = self.tenants[flow.tenant] = TenantTally()
        match transition.kind:
            case "queued" | "retrying":
                self._enter(flow, tenant)
                tenant.retries += transition.kind == "retrying"
            case "started":
                if self._watched and all(self.tenants[name].waiting for name in self._watched):
                    self._contended.add(flow)
                self._leave(flow, tenant)
                self._live.add(flow)
            case "attempt_failed":
                self._live.discard(flow)
                self._book(transition, flow, tenant)
            case "finished":
                self._leave(flow, tenant)
                if transition.outcome == "ok":
                    self._live.discard(flow)
                    self._book(transition, flow, tenant)
                self._finish(transition, tenant)
            case "first_token":
                pass

    def _enter(self, flow: Flow, tenant: TenantTally) -> None:
        if flow not in self._waiting:
            self._waiting.add(flow)
            tenant.waiting += 1

    def _leave(self, flow: Flow, tenant: TenantTally) -> None:
        if flow in self._waiting:
            self._waiting.discard(flow)
            tenant.waiting -= 1

    def _book(self, transition: Transition, flow: Flow, tenant: TenantTally) -> None:
        usage = transition.usage
        contended = flow in self._contended
        self._contended.discard(flow)
        if usage is None:
            return
        tenant.usage += usage
        if contended:
            uncached = (usage.input or 0) + (usage.cache_write or 0)
            tenant.contended_calls += 1
            tenant.contended_service += self._weights.cost(uncached, usage.cached or 0, usage.output or 0)

    def _finish(self, transition: Transition, tenant: TenantTally) -> None:
        if transition.outcome == "ok":
            tenant.calls += 1
        else:
            tenant.failed += 1
        tenant.waited += transition.waited
        tenant.longest_wait = max(tenant.longest_wait, transition.waited)
