"""Calls that no limit could ever admit: refused at once, since waiting would not help them."""

from collections.abc import Sequence

from agents.errors import TooLarge
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.limits import LimitSet
from orchestrator.policy.ticket import Ticket


def too_large(ticket: Ticket, own: LimitSet | None, endpoints: Sequence[EndpointState]) -> TooLarge | None:
    """Why that is so, if it is. `own` are the limits of the call's tenant."""
    message = own.too_large(ticket) if own is not None else None
    if message is not None:
        return TooLarge(f"tenant {ticket.tenant}: {message}")
    for endpoint in endpoints:
        message = endpoint.limits.too_large(ticket)
        if message is None:
            return None
    return TooLarge(f"endpoint {endpoints[-1].name}: {message}")
