"""What the policy answers when it is asked what goes next."""

from msgspec import Struct

from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.ticket import Ticket


class Start(Struct, frozen=True, gc=False):
    """Send this call to this endpoint now; all it needs is reserved."""

    ticket: Ticket
    endpoint: EndpointState


class WaitUntil(Struct, frozen=True, gc=False):
    """Nothing can start before `at`, unless something changes."""

    at: float


class Idle(Struct, frozen=True, gc=False):
    """Nothing can start until something changes."""


Decision = Start | WaitUntil | Idle
IDLE = Idle()
