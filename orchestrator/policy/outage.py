"""Whether a backend can serve nobody at the moment, and what those who wait are told.

Every endpoint is closed off by its breaker then. There are two kinds of it:

- **refused**: every endpoint refuses everybody (a wrong key, no quota). Waiting only delays the same answer, so all who
  wait get it at once.
- **down**: the endpoints cannot be reached or fail. Probes will find out when they are back. An agent's call waits for
  that, since it has nowhere else to go; a call with another backend to go to is given back at once, and an HTTP caller
  is told when to come again (503, where a full queue is a 429).
"""

from collections.abc import Sequence

from agents.errors import ModelError, Refused, Unavailable
from agents.port import Call
from orchestrator.policy.endpoints import EndpointState

SOON = 1.0
"""What a caller is told to wait, in seconds, while a probe is out."""


def refused_by_all(endpoints: Sequence[EndpointState], now: float) -> Refused | None:
    """Why no endpoint serves anybody, if each refuses everybody; a fresh error for one caller."""
    fault: Refused | None = None
    for endpoint in endpoints:
        fault = endpoint.breaker.fault
        if fault is None or endpoint.breaker.allows(now):
            return None
    if fault is None:
        return None
    return Refused(str(fault), status=fault.status, code=fault.code, endpoint_fault=True)


def outage(endpoints: Sequence[EndpointState], now: float) -> ModelError | None:
    """A fresh error if no endpoint lets a call pass at `now`, else None."""
    for endpoint in endpoints:
        if endpoint.breaker.allows(now):
            return None
    refused = refused_by_all(endpoints, now)
    if refused is not None:
        return refused
    # while a probe is out there is no time, but its verdict comes soon
    waits = [endpoint.breaker.until() - now for endpoint in endpoints]
    wait = max(SOON, min((wait for wait in waits if wait < float("inf")), default=SOON))
    names = ", ".join(endpoint.name for endpoint in endpoints)
    return Unavailable(f"no endpoint can be reached ({names})", worked=False, retry_after=wait)


def useless_to_wait(call: Call, endpoints: Sequence[EndpointState], now: float) -> ModelError | None:
    """Why a call that waits already should wait no longer, if that is so."""
    return outage(endpoints, now) if call.elsewhere else refused_by_all(endpoints, now)
