"""What the simulated provider saw: calls admitted and refused, in flight, tokens by time, use of each limit.

Amounts by time are kept per second of the provider's clock for the last `KEPT_SECONDS`, so a long-running provider
stays bounded.
"""

import math
from collections import Counter, deque

from msgspec import Struct, field

KEPT_SECONDS = 86_400


class Series:
    """Amounts by the second in which they counted."""

    __slots__ = ("_amounts", "_seconds", "total")

    def __init__(self) -> None:
        self._amounts: dict[int, float] = {}
        self._seconds: deque[int] = deque()
        self.total = 0.0

    def add(self, at: float, amount: float) -> None:
        """Counts an amount (or, negative, a correction) at its place in time."""
        second = math.floor(at)
        self.total += amount
        if second in self._amounts:
            self._amounts[second] += amount
            return
        if self._seconds and second < self._seconds[0]:
            return
        self._amounts[second] = amount
        self._seconds.append(second)
        while self._seconds[0] < second - KEPT_SECONDS:
            self._amounts.pop(self._seconds.popleft(), None)

    def between(self, start: float, end: float) -> float:
        """What counted in [start, end), to the second."""
        return sum(amount for second, amount in self._amounts.items() if start <= second < end)

    def per_minute(self) -> dict[int, float]:
        """What counted in each minute of the clock."""
        minutes: dict[int, float] = {}
        for second, amount in self._amounts.items():
            minutes[second // 60] = minutes.get(second // 60, 0.0) + amount
        return minutes


class SimStatistics(Struct):
    """The provider's counters. `refused` counts by reason: a limit's kind, `too_large`, `concurrency`, `invalid`,
    `key`; faults are counted apart, by kind. `completed`, `aborted` (the client left) and `failed` (a fault) add up
    to what was admitted and is no longer in flight."""

    arrived: int = 0
    admitted: int = 0
    completed: int = 0
    aborted: int = 0
    failed: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    input_tokens: Series = field(default_factory=Series)
    output_tokens: Series = field(default_factory=Series)

    @property
    def throttled(self) -> int:
        """Calls answered 429 by a limit or for concurrency: what a good client never causes."""
        return sum(n for reason, n in self.refused.items() if reason not in ("invalid", "key"))

    def tokens_per_minute(self) -> dict[int, tuple[float, float]]:
        """Input and output tokens worked in each minute of the provider's clock."""
        given, made = self.input_tokens.per_minute(), self.output_tokens.per_minute()
        return {minute: (given.get(minute, 0.0), made.get(minute, 0.0)) for minute in sorted(given | made)}
