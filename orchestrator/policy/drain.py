"""How fast a queue drains, for tenants and in all: what an honest `Retry-After` is computed from.

The rate of a tenant is an exponential moving average over 60 s, taken only while the tenant has calls waiting: a tenant
that asks for little is served little, and that says nothing about how fast it could be served. It is blended with 10 s
of the tenant's fair share, so that a tenant who has just arrived has an estimate too:

    rate = (service while backlogged + 10 s * fair share) / (time backlogged + 10 s)

with both terms decaying at 1/60 s. Service is in weighted tokens, the unit of the fair order.

Known limits: in a short busy period the last call served is not counted (it ends the period), so light load measures
nothing; and all is an average, which a provider's outage makes wrong for about a minute.
"""

import math

SPAN = 60.0
BLEND = 10.0
MEASURED_AFTER = 1.0
TRUSTED_AFTER = 30.0
IDLE_TENANTS_KEPT = 1024

GRAIN = 0.05
"""Service within so many seconds decays together: an error of at most a thousandth saves an exponential per call."""


class _Average:
    """Service and time, both decaying, of one stretch of backlog after another."""

    __slots__ = ("at", "backlogged", "service", "time", "weight")

    def __init__(self) -> None:
        self.service = 0.0
        self.time = 0.0
        self.at = 0.0
        self.backlogged = False
        self.weight = 1.0

    def advance(self, now: float) -> None:
        if self.backlogged and now > self.at:
            kept = math.exp((self.at - now) / SPAN)
            self.service *= kept
            self.time = self.time * kept + SPAN * (1.0 - kept)
        self.at = now


class DrainRates:
    """Service rates in weighted tokens per second. Times are on the owner's clock.

    `full_rate` is the fastest the backend could ever serve, where its limits say so; infinite where they do not.
    """

    __slots__ = ("_best", "_idle", "_tenants", "_total", "_weights", "full_rate")

    def __init__(self, full_rate: float = math.inf) -> None:
        self.full_rate = full_rate
        self._tenants: dict[str, _Average] = {}
        self._idle: dict[str, _Average] = {}
        self._total = _Average()
        self._weights = 0.0
        self._best = 0.0

    def backlogged(self, tenant: str, weight: float, now: float) -> None:
        """The tenant has calls waiting from now on."""
        if tenant in self._tenants:
            return
        self._start(self._total, now)
        average = self._tenants[tenant] = self._idle.pop(tenant) if tenant in self._idle else _Average()
        self._start(average, now)
        average.weight = weight
        self._weights += weight

    def emptied(self, tenant: str, now: float) -> None:
        """The tenant has nothing waiting any more."""
        average = self._tenants.pop(tenant, None)
        if average is None:
            return
        average.advance(now)
        average.backlogged = False
        self._weights -= average.weight
        self._idle[tenant] = average
        if len(self._idle) > IDLE_TENANTS_KEPT:
            del self._idle[next(iter(self._idle))]
        if not self._tenants:
            self._weights = 0.0
            self._total.advance(now)
            self._total.backlogged = False

    def served(self, tenant: str, service: float, now: float) -> None:
        """A call of `service` weighted tokens was sent, and more of the tenant's (or of others') still wait."""
        average, total = self._tenants.get(tenant), self._total
        if average is not None:
            if now - average.at > GRAIN:
                average.advance(now)
            average.service += service
        if total.backlogged:
            if now - total.at > GRAIN:
                total.advance(now)
                self._note_best()
            total.service += service

    def total(self, now: float) -> float | None:
        """The rate of the whole backend while anything waits; None while nobody knows."""
        self._total.advance(now)
        if self._total.time >= MEASURED_AFTER:
            return self._total.service / self._total.time
        return self.full_rate if math.isfinite(self.full_rate) else None

    def tenant(self, tenant: str, weight: float, now: float) -> float | None:
        """The rate at which the tenant is served, or would be if it joined now; None while nobody knows."""
        total = self.total(now)
        if total is None:
            return None
        average = self._tenants.get(tenant)
        weights = self._weights if average is not None else self._weights + weight
        fair = total * weight / weights if weights > 0 else total
        if average is None:
            return fair
        average.advance(now)
        return (average.service + BLEND * fair) / (average.time + BLEND)

    def fastest(self, now: float) -> float:
        """A rate that is surely not exceeded: the configured one, or twice the best that a long backlog has measured.

        Infinite while neither is known. What is measured while the provider is away says nothing about what it can do.
        """
        if math.isfinite(self.full_rate):
            return self.full_rate
        self._total.advance(now)
        self._note_best()
        return 2.0 * self._best if self._best > 0 else math.inf

    def _note_best(self) -> None:
        if self._total.time >= TRUSTED_AFTER:
            self._best = max(self._best, self._total.service / self._total.time)

    @staticmethod
    def _start(average: _Average, now: float) -> None:
        if not average.backlogged:
            average.at = now
            average.backlogged = True
