"""How many runs a tenant may have, and all together, and when to come back where there are that many.

A client that is refused is told the time until one of its tenant's runs has probably ended:

    retry after = 1 / rate,    rate = (runs ended + 1) / (time with runs + 10 s)

both terms of the tenant's own (or of all), decaying at 1/60 s. The 1 in 10 s is what is assumed of a tenant nobody has
seen yet; after a minute it counts for a seventh. Only time in which the tenant has runs is counted: the others say
nothing about how long its runs take.

Known limit: several clients of one tenant that are refused at the same moment are told the same time, and the first
to come back gets the room.
"""

import math
from typing import Final

from agents.errors import QueueFull

SPAN: Final = 60.0
ASSUMED_RUNS: Final = 1.0
ASSUMED_SECONDS: Final = 10.0
SOONEST: Final = 1.0
LATEST: Final = 120.0
IDLE_TENANTS_KEPT: Final = 1024


def retry_after(ended: float, seconds: float) -> float:
    """Seconds until room, where `ended` runs ended in `seconds`."""
    return min(max((seconds + ASSUMED_SECONDS) / (ended + ASSUMED_RUNS), SOONEST), LATEST)


class _Holder:
    __slots__ = ("at", "ended", "held", "seconds")

    def __init__(self, now: float) -> None:
        self.held = 0
        self.ended = 0.0
        self.seconds = 0.0
        self.at = now

    def advance(self, now: float) -> None:
        if self.held and now > self.at:
            kept = math.exp((self.at - now) / SPAN)
            self.ended *= kept
            self.seconds = self.seconds * kept + SPAN * (1.0 - kept)
        self.at = now


class RunRoom:
    """Counts runs: at most `per_tenant` of each tenant, and `in_all` of all. Times are in seconds on one clock."""

    __slots__ = ("_all", "_idle", "_tenants", "in_all", "per_tenant")

    def __init__(self, per_tenant: int, in_all: float = math.inf) -> None:
        self.per_tenant = per_tenant
        self.in_all = in_all
        self._all = _Holder(0.0)
        self._tenants: dict[str, _Holder] = {}
        self._idle: dict[str, _Holder] = {}

    def enter(self, tenant: str, now: float) -> None:
        """Takes a place for one run. Raises `QueueFull`, with the seconds after which to ask again."""
        own = self._tenants.get(tenant) or self._idle.get(tenant)
        if own is not None and own.held >= self.per_tenant:
            raise _full(f"tenant {tenant} has", own, now)
        if self._all.held >= self.in_all:
            raise _full("all tenants together have", self._all, now)
        self.admit(tenant, now)

    def admit(self, tenant: str, now: float) -> None:
        """Counts a run that exists already, whether there is room for it or not."""
        own = self._tenants.get(tenant) or self._idle.pop(tenant, None)
        own = self._tenants.setdefault(tenant, own or _Holder(now))
        for holder in (own, self._all):
            holder.advance(now)
            holder.held += 1

    def leave(self, tenant: str, now: float) -> None:
        """One of the tenant's runs has ended."""
        self._give_back(tenant, now, ended=1)

    def abandon(self, tenant: str, now: float) -> None:
        """A run that took a place never began to exist."""
        self._give_back(tenant, now, ended=0)

    def _give_back(self, tenant: str, now: float, *, ended: int) -> None:
        own = self._tenants[tenant]
        for holder in (own, self._all):
            holder.advance(now)
            holder.ended += ended
            holder.held -= 1
        if own.held:
            return
        self._idle[tenant] = self._tenants.pop(tenant)
        if len(self._idle) > IDLE_TENANTS_KEPT:
            del self._idle[next(iter(self._idle))]

    def held(self, tenant: str) -> int:
        """How many runs the tenant has."""
        own = self._tenants.get(tenant)
        return 0 if own is None else own.held

    def __repr__(self) -> str:
        return f"<RunRoom {self._all.held} runs of {len(self._tenants)} tenants, at most {self.per_tenant} each>"


def _full(whose: str, holder: _Holder, now: float) -> QueueFull:
    holder.advance(now)
    seconds = retry_after(holder.ended, holder.seconds)
    return QueueFull(
        f"{whose} {holder.held} runs that have not ended, as many as there may be; try again in {math.ceil(seconds)} s",
        retry_after=seconds,
    )
