"""What explanations need of the owners: calls that wait, tenants' weights, how large limits are."""

import math
from collections.abc import Callable, Mapping

import msgspec
import trio

from orchestrator.daemon.owners import Owners
from orchestrator.explain.service import Explainer
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.waits import FAIR_ORDER, Told
from orchestrator.runs.service import RunService
from orchestrator.store.ledger_port import CallRow, Ledger


class OwnersSeen:
    """Reads the owners, and changes nothing. `wall` is in seconds since the epoch."""

    def __init__(self, owners: Owners, wall: Callable[[], float]) -> None:
        self._owners = owners
        self._wall = wall

    def waiting(self, wanted: str) -> list[CallRow]:
        """The calls that wait of a run, or the one of a key, as their rows would be now."""
        now, wall = trio.current_time(), self._wall()
        return [
            _row(backend, ticket, owner.policy.reasons.so_far(ticket, owner.policy.accounts.sent, now), now, wall)
            for backend, owner in self._owners.by_name.items()
            for ticket in owner.unsent()
            if wanted in (ticket.run, ticket.call.key)
        ]

    def weight(self, backend: str, tenant: str) -> float:
        """A tenant's weight at a backend."""
        owner = self._owners.by_name.get(backend)
        return 1.0 if owner is None else owner.policy.fair.weight(tenant)

    def amounts(self, backend: str) -> Mapping[str, str]:
        """A backend's limits by name, in words."""
        owner = self._owners.by_name.get(backend)
        if owner is None:
            return {}
        endpoints = owner.policy.endpoints
        return {
            window.name: f"{window.spec.amount:,.0f}{f' at endpoint {endpoint.name}' if len(endpoints) > 1 else ''}"
            for endpoint in endpoints
            for window in endpoint.limits.windows
        }


def explainer_of(owners: Owners, ledger: Ledger, runs: RunService, wall: Callable[[], float]) -> Explainer:
    """Explains what the ledger and the runs' logs hold, and what waits at the owners."""
    seen = OwnersSeen(owners, wall)
    return Explainer(ledger, runs, waiting=seen.waiting, weight=seen.weight, amounts=seen.amounts, wall=wall)


def _row(backend: str, ticket: Ticket, waits: Told, now: float, wall: float) -> CallRow:
    call = ticket.call
    return CallRow(
        key=call.key or "(without a key)",
        tenant=ticket.tenant,
        job=ticket.job,
        run=ticket.run,
        priority=int(ticket.priority),
        backend=backend,
        model=call.request.model,
        arrived=wall - (now - ticket.arrived),
        retried=ticket.attempts,
        waited=sum(seconds for _, seconds in waits),
        held_by=ticket.held_by or FAIR_ORDER,
        waits=msgspec.json.encode(dict(waits)).decode(),
        held_input=ticket.whole_input,
        held_output=ticket.max_output if ticket.max_output < math.inf else 0,
    )
