"""Which calls may go before a head that does not fit: so many that it waits at most as if it were twice its size."""

from collections.abc import Sequence

from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.limits import Blocked
from orchestrator.policy.ticket import Ticket


def may_pass(ticket: Ticket, head: Ticket, obstacle: Blocked, endpoints: Sequence[EndpointState]) -> bool:
    """Whether a call that fits may go before the head that does not; books it on the head if so."""
    if obstacle.window is None or obstacle.amount <= 0:
        return False
    share = _owner_of(obstacle, endpoints).limits.amount_of(ticket, obstacle.window) / obstacle.amount
    if head.passed + share > 1.0:
        return False
    head.passed += share
    return True


def _owner_of(obstacle: Blocked, endpoints: Sequence[EndpointState]) -> EndpointState:
    if len(endpoints) > 1:
        for endpoint in endpoints:
            if endpoint.limits.owns(obstacle.window):
                return endpoint
    return endpoints[0]
