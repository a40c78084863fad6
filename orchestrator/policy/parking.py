"""Tenants that are stopped by a limit of their own: out of the fair order until that limit may have room again.

A parked tenant stands in nobody's way. It comes back at the time its limit named, or as soon as one of its own calls
frees something; then it is looked at again like any other, and perhaps parked again.
"""

import math

from orchestrator.policy.fairness import FairQueue
from orchestrator.policy.limits import Blocked
from orchestrator.policy.timers import Timers
from orchestrator.policy.waits import Reasons


class Parking:
    """Who is parked, and until when. Times are on the owner's clock."""

    __slots__ = ("_by", "_fair", "_reasons", "_timers")

    def __init__(self, fair: FairQueue, reasons: Reasons) -> None:
        self._fair = fair
        self._reasons = reasons
        self._by: dict[str, Blocked] = {}
        self._timers: Timers[str] = Timers(self._by.__contains__)

    def park(self, tenant: str, blocked: Blocked, now: float) -> None:
        """Takes the tenant out until `blocked.until`, or until `release` is called."""
        self._by[tenant] = blocked
        self._reasons.parked(tenant, blocked.limit, now)
        self._fair.park(tenant)
        if blocked.until < math.inf:
            self._timers.add(blocked.until, tenant)

    def release(self, tenant: str, now: float) -> bool:
        """Lets the tenant come back; False if it was not parked."""
        if self._by.pop(tenant, None) is None:
            return False
        self._reasons.released(tenant, now)
        self._fair.unpark(tenant)
        return True

    def release_all(self, now: float) -> None:
        """Lets all come back: limits have changed."""
        for tenant in list(self._by):
            self.release(tenant, now)

    def next(self) -> float:
        """When the next tenant comes back, infinity if none does by itself."""
        return self._timers.next()

    def release_due(self, now: float) -> bool:
        """Lets all come back whose time it is; True if there were any."""
        due = list(self._timers.due(now))
        for tenant in due:
            self.release(tenant, now)
        return bool(due)

    def __repr__(self) -> str:
        return f"<Parking {sorted(self._by)}>"
