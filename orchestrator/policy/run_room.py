"""How many runs a tenant may have, and when to come back where it has that many.

A client that is refused is told the time until one of its tenant's runs has probably ended:

    retry after = 1 / rate,    rate = (runs ended + 1) / (time with runs + 10 s)

both terms of the tenant's own, decaying at 1/60 s. The 1 in 10 s is what is assumed of a tenant nobody has seen yet;
after a minute it counts for a seventh. Only time in which the tenant has runs is counted: the others say nothing about
how long its runs take.

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


class _Tenant:
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
    """Counts each tenant's runs, at most `per_tenant` of them. Times are in seconds on one clock."""

    __slots__ = ("_idle", "_tenants", "per_tenant")

    def __init__(self, per_tenant: int) -> None:
        self.per_tenant = per_tenant
        self._tenants: dict[str, _Tenant] = {}
        self._idle: dict[str, _Tenant] = {}

    def enter(self, tenant: str, now: float) -> None:
        """Takes a place for one run. Raises `QueueFull`, with the seconds after which to ask again."""
        books = self._tenants.get(tenant)
        if books is None:
            books = self._tenants[tenant] = self._idle.pop(tenant) if tenant in self._idle else _Tenant(now)
        books.advance(now)
        if books.held >= self.per_tenant:
            seconds = retry_after(books.ended, books.seconds)
            raise QueueFull(
                f"tenant {tenant} has {books.held} runs that have not ended, as many as it may; "
                f"try again in {math.ceil(seconds)} s",
                retry_after=seconds,
            )
        books.held += 1

    def leave(self, tenant: str, now: float) -> None:
        """One of the tenant's runs has ended."""
        books = self._tenants[tenant]
        books.advance(now)
        books.ended += 1
        self._give_back(tenant, books)

    def abandon(self, tenant: str, now: float) -> None:
        """A run that took a place never began to exist."""
        books = self._tenants[tenant]
        books.advance(now)
        self._give_back(tenant, books)

    def _give_back(self, tenant: str, books: _Tenant) -> None:
        books.held -= 1
        if books.held:
            return
        self._idle[tenant] = self._tenants.pop(tenant)
        if len(self._idle) > IDLE_TENANTS_KEPT:
            del self._idle[next(iter(self._idle))]

    def held(self, tenant: str) -> int:
        """How many runs the tenant has."""
        books = self._tenants.get(tenant)
        return 0 if books is None else books.held

    def __repr__(self) -> str:
        return f"<RunRoom {sum(books.held for books in self._tenants.values())} runs of {len(self._tenants)} tenants>"
