"""How fast a backend serves calls while some wait: the rate from which expected ends are computed.

The rate is the service of the calls that ended while others waited, over the time in which somebody waited and calls
could go at all. Time without a queue says nothing of how fast one would drain, and neither does a time in which
every endpoint was broken or told to wait: what is asked for is the pace of a queue that moves. Sums are kept as of now
and as of up to a minute ago, in steps of five seconds, so the rate is that of the last minute with a queue.

Service is in weighted tokens as it was booked in the end, so that no prediction has a part in it. Calls that failed
before any work have brought no queue forward, and do not count.

Known limits: a backend whose calls take longer than it has had a queue has answered nothing yet, so there is no rate;
and just after a burst was let go at once the rate is above what can last.
"""

from collections import deque
from typing import Final

STEP: Final = 5.0
STEPS: Final = 12
MEASURED_AFTER: Final = 1.0
"""Seconds of a moving queue before there is a rate."""


class Pace:
    """The rate of one backend. Times are on the owner's clock, service in weighted tokens."""

    __slots__ = ("_moving", "_next", "_past", "_service", "_since", "_time")

    def __init__(self, now: float) -> None:
        self._service = 0.0
        self._time = 0.0
        self._moving = False
        self._since = now
        self._past: deque[tuple[float, float]] = deque([(0.0, 0.0)], maxlen=STEPS + 1)
        self._next = now + STEP

    def waits(self, moving: bool, now: float) -> None:
        """A look has found that calls wait, and that some endpoint sends calls; or that none waits, or none sends."""
        if moving is not self._moving:
            if self._moving:
                self._time += now - self._since
            self._moving = moving
            self._since = now

    def ended(self, service: float, now: float) -> None:
        """An attempt has ended and cost so much."""
        if now >= self._next:
            self._step(now)
        if self._moving:
            self._service += service

    def per_second(self, now: float) -> float | None:
        """Service per second while a queue moves; None while nobody knows."""
        service, time = self._past[0]
        time = self._moved(now) - time
        service = self._service - service
        return service / time if time >= MEASURED_AFTER and service > 0.0 else None

    def _moved(self, now: float) -> float:
        return self._time + (now - self._since if self._moving else 0.0)

    def _step(self, now: float) -> None:
        self._next = now + STEP
        moved = self._moved(now)
        # a step in which no queue moved has nothing to say, and must not push out those that have
        if moved > self._past[-1][1]:
            self._past.append((self._service, moved))

    def __repr__(self) -> str:
        return f"<Pace {self._service:.0f} in {self._time:.1f} s, {'moving' if self._moving else 'at rest'}>"
