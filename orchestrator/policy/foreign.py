"""Somebody else on the same key: how much of a limit others use, learned from what the provider says is left.

A reading says that `remaining` of the limit is left. Our own log says what we used, and what we hold for calls that
the provider may or may not have counted yet. Whatever the provider misses beyond that total was used by others:

    foreign = (limit - remaining) - (used + held)

Counting all that is held as already counted errs towards *no* foreign use, so a provider that serves only us never
looks shared. Between readings the foreign amount leaves the window like any other, at 1/span of it per second, while
the others go on at their rate: the moving average of (predicted - reported remaining)/dt.

Room is looked for as it will be when a call sent now is counted, up to a second later: others take their part of it
meanwhile [two clients on one key, both at half its limit and more: 0 to 2.1 % of calls refused instead of 0.2 to 3.5].

Known limits: while nothing is sent no reading comes, so both fade within two spans; otherwise a limit that others had
used up would never be tried again. Readings of a provider that refills continuously show others only once the limit
is short, which is when it matters.
"""

import math

COUNTED_WITHIN = 1.0
"""Seconds from sending a call until the provider has counted it, at most."""

SMOOTHING_SECONDS = 10.0
"""Time constant of the moving average of the foreign rate."""


class Foreign:
    """Use of one limit by others. `amount` in the limit's unit, `rate` in units per second."""

    __slots__ = ("_amount", "_at", "_seen", "_span", "rate")

    def __init__(self, span: float) -> None:
        self._span = span
        self._amount = 0.0
        self._seen = 0.0
        self._at = -math.inf
        self.rate = 0.0

    def amount(self, now: float) -> float:
        """What others are expected to have in the window at `now`."""
        dt = now - self._at
        span = self._span
        if dt >= 2 * span:
            return 0.0
        if dt <= 0:
            return self._amount
        left = self._amount * (1 - dt / span) if dt < span else 0.0
        return left + self.rate * dt * (1 - dt / (2 * span))

    def ahead(self, now: float) -> float:
        """What others are expected to have in the window when a call sent at `now` is counted."""
        return self.amount(now) + (self.rate * COUNTED_WITHIN if now - self._at < self._span else 0.0)

    def read(self, missing: float, now: float) -> None:
        """Takes in a reading: `missing` is what the provider has counted beyond all we know of, maybe below 0."""
        expected = self.amount(now)
        dt = now - self._at
        seen = max(missing, 0.0)
        if dt >= 2 * self._span:
            # the first reading for long: the amount may have any age, so it says nothing of a rate
            self.rate = 0.0
        elif dt > 0:
            weight = 1 - math.exp(-dt / SMOOTHING_SECONDS)
            left = self._seen * max(0.0, 1 - dt / self._span)
            self.rate = max(0.0, self.rate + weight * ((seen - left) / dt - self.rate))
        # responses overtake each other, and an old one reads as more room than there is
        self._amount = seen if seen >= expected else expected + 0.3 * (seen - expected)
        self._seen = seen
        self._at = now

    def all_gone(self, room: float, now: float) -> None:
        """The provider says that nothing is left although we thought that `room` was: others must have used it."""
        self._amount = max(self.amount(now), 0.0) + max(room, 0.0)
        self._at = now
