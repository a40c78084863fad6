"""What a tenant may still ask of one backend, as clients of HTTP are told it in headers.

What is told is whichever stops the tenant first:

- **Requests**: its own limit of requests, if it has one; else the queue's cap on its waiting calls. The cap is what
  decides between a place in the queue and a 429, so `remaining` is how many more calls are taken now, and `reset` when
  the queue will probably have drained.
- **Tokens**: its own limits of tokens, by kind. Without any there is nothing true to tell: a backend's own limits are
  shared by all tenants, and reaching them means to wait and not to be refused.

A limit on several spans is told by the one with the smallest remaining share. `reset` is at most the limit's span: its
log is a sliding one, and forgets the last entry one span after it.
"""

import math

from msgspec import Struct

from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.feedback import LimitKind
from orchestrator.policy.window import Window


class Allowance(Struct, frozen=True):
    """How much of a limit is left. `reset` is in seconds from now, until all of it is there again, at most."""

    limit: int
    remaining: int
    reset: float


Allowances = dict[LimitKind, Allowance]
"""By kind of limit; `requests` is always there."""


def allowances(policy: Dispatcher, tenant: str, now: float) -> Allowances:
    """What the tenant has left at this backend."""
    found: Allowances = {}
    own = policy.tenant_limits.get(tenant)
    for window in () if own is None else own.windows:
        left = _left(window, now)
        known = found.get(window.spec.kind)
        if known is None or left.remaining * known.limit < known.remaining * left.limit:
            found[window.spec.kind] = left
    if "requests" not in found:
        found["requests"] = _places(policy, tenant, now)
    return found


def _left(window: Window, now: float) -> Allowance:
    taken = window.taken(now)
    limit = math.floor(window.amount)
    return Allowance(limit, max(0, math.floor(window.amount - taken)), window.span if taken > 0 else 0.0)


def _places(policy: Dispatcher, tenant: str, now: float) -> Allowance:
    """The places in the queue that the tenant has left."""
    admission = policy.admission
    cap = admission.tenant_calls
    waiting = admission.waiting(tenant).http_calls
    reset = admission.retry_after(tenant, now) if waiting else 0.0
    return Allowance(cap, max(0, min(cap - waiting, admission.room)), reset)
