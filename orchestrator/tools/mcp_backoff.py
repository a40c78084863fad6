"""How long to wait before a server that failed is started again."""

import random
from typing import Final

FIRST: Final = 0.5
LONGEST: Final = 60.0
"""Seconds. Never given up: a server that comes back tomorrow is used tomorrow."""
JITTER: Final = 0.25
STEADY: Final = 60.0
"""A server that lived so many seconds has put its failures behind it."""


class Backoff:
    """The wait doubles with each failure, up to `LONGEST`, plus up to `JITTER` of itself."""

    __slots__ = ("_next", "_rng")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = FIRST

    def failed(self, lived: float) -> float:
        """Counts a failure after `lived` seconds of service; how many seconds to wait."""
        delay = FIRST if lived >= STEADY else self._next
        self._next = min(LONGEST, 2 * delay)
        return delay * (1 + JITTER * self._rng.random())
