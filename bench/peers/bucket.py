"""A leaky bucket for asyncio, as a careful script has one."""

import asyncio
import time
from typing import Final

_SHORTEST: Final = 0.001


class Bucket:
    """Lets amounts pass at `rate` a second, first come first served. It holds at most `burst` seconds' worth; what is
    larger than that passes when it is empty. Amounts that turn out otherwise are corrected afterwards.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._room = rate * burst
        self._level = 0.0
        self._leaked = time.monotonic()
        self._turn = asyncio.Lock()

    async def take(self, amount: float) -> None:
        """Waits for its turn and for room."""
        async with self._turn:
            while (excess := self._excess(amount)) > 0:  # noqa: ASYNC110 -- time makes room, nobody else
                await asyncio.sleep(max(excess / self._rate, _SHORTEST))
            self._level += amount

    def correct(self, difference: float) -> None:
        """What an amount came to, less what was taken for it."""
        self._leak()
        self._level += difference

    def _excess(self, amount: float) -> float:
        self._leak()
        return self._level - max(self._room - amount, 0.0)

    def _leak(self) -> None:
        """A level below 0 is what was taken too much of late; it is not kept for longer than a burst."""
        now = time.monotonic()
        self._level = max(self._level - (now - self._leaked) * self._rate, min(self._level, -self._room))
        self._leaked = now
