"""Three ways a provider counts an amount over time: fixed windows, a sliding log, a token bucket.

Written from the definitions and independent of the client's own limits, since it is what they are tested against.
`now` is passed in and must not go back. A meter only counts; whether a call is admitted is decided in `limits`.

- Fixed window: time is cut at multiples of the span; each window starts from 0.
- Sliding log: what was counted within the last span, exactly.
- Token bucket: holds at most `amount`, refills at `amount / span`; "used" is what is missing from a full bucket.
"""

import math
from abc import ABC, abstractmethod
from collections import deque

from orchestrator.backends.simulated.config import Algorithm

GRACE = 1e-6
"""Seconds by which an amount leaves early: a client that computes `t + 60` must not lose to a rounding error."""


class Entry:
    """One counted amount and its place in time, so that it can be corrected there later."""

    __slots__ = ("amount", "at", "live")

    def __init__(self, at: float, amount: float) -> None:
        self.at = at
        self.amount = amount
        self.live = True


class Meter(ABC):
    """Counts amounts against `amount` per `span` seconds."""

    def __init__(self, amount: float, span: float) -> None:
        self.amount = amount
        self.span = span

    @abstractmethod
    def used(self, now: float) -> float:
        """What counts at this instant."""

    @abstractmethod
    def add(self, now: float, amount: float) -> Entry:
        """Counts an amount, whether or not it fits."""

    @abstractmethod
    def correct(self, entry: Entry, delta: float, now: float) -> None:
        """Changes an amount counted earlier, at its own place in time; no effect once it has aged out."""

    @abstractmethod
    def wait(self, now: float, need: float) -> float:
        """Seconds until `need` fits if nothing else comes: 0 if it fits now, infinity if it never does."""

    @abstractmethod
    def reset(self, now: float) -> float:
        """Seconds until nothing counts any more if nothing else comes."""


class FixedWindow(Meter):
    def __init__(self, amount: float, span: float) -> None:
        super().__init__(amount, span)
        self._index = -math.inf
        self._used = 0.0

    def _index_at(self, now: float) -> int:
        return math.floor((now + GRACE) / self.span)

    def used(self, now: float) -> float:
        index = self._index_at(now)
        if index != self._index:
            self._index, self._used = index, 0.0
        return self._used

    def add(self, now: float, amount: float) -> Entry:
        self._used = self.used(now) + amount
        return Entry(now, amount)

    def correct(self, entry: Entry, delta: float, now: float) -> None:
        used = self.used(now)
        if self._index_at(entry.at) == self._index:
            self._used = used + delta

    def wait(self, now: float, need: float) -> float:
        if need > self.amount:
            return math.inf
        return 0.0 if self.used(now) + need <= self.amount else self.reset(now)

    def reset(self, now: float) -> float:
        return (self._index_at(now) + 1) * self.span - now


class SlidingLog(Meter):
    def __init__(self, amount: float, span: float) -> None:
        super().__init__(amount, span)
        self._entries: deque[Entry] = deque()
        self._used = 0.0

    def used(self, now: float) -> float:
        entries = self._entries
        while entries and entries[0].at + self.span <= now + GRACE:
            entry = entries.popleft()
            entry.live = False
            self._used -= entry.amount
        return self._used

    def add(self, now: float, amount: float) -> Entry:
        self._used = self.used(now) + amount
        entry = Entry(now, amount)
        self._entries.append(entry)
        return entry

    def correct(self, entry: Entry, delta: float, now: float) -> None:
        if entry.live:
            entry.amount += delta
            self._used += delta

    def wait(self, now: float, need: float) -> float:
        if need > self.amount:
            return math.inf
        left = self.used(now)
        if left + need <= self.amount:
            return 0.0
        for entry in self._entries:
            left -= entry.amount
            if left + need <= self.amount:
                return entry.at + self.span - now
        return self.reset(now)

    def reset(self, now: float) -> float:
        self.used(now)
        return self._entries[-1].at + self.span - now if self._entries else 0.0


class TokenBucket(Meter):
    def __init__(self, amount: float, span: float) -> None:
        super().__init__(amount, span)
        self._used = 0.0
        self._at = -math.inf

    def used(self, now: float) -> float:
        if self._used:
            drained = (now - self._at) * self.amount / self.span
            self._used = max(0.0, self._used - drained)
        self._at = now
        # tokens are whole: a sliver left by rounding is no token
        return self._used if self._used > self.amount * GRACE / self.span else 0.0

    def add(self, now: float, amount: float) -> Entry:
        self.used(now)
        self._used += amount
        return Entry(now, amount)

    def correct(self, entry: Entry, delta: float, now: float) -> None:
        self.used(now)
        self._used = max(0.0, self._used + delta)

    def wait(self, now: float, need: float) -> float:
        if need > self.amount:
            return math.inf
        over = self.used(now) + need - self.amount
        rate = self.amount / self.span
        return over / rate if over > rate * GRACE else 0.0

    def reset(self, now: float) -> float:
        return self.used(now) * self.span / self.amount


_METERS: dict[Algorithm, type[Meter]] = {
    "fixed_window": FixedWindow,
    "sliding_window": SlidingLog,
    "token_bucket": TokenBucket,
}


def meter(algorithm: Algorithm, amount: float, span: float) -> Meter:
    """A fresh meter of the named kind."""
    return _METERS[algorithm](amount, span)
