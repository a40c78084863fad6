"""A run's place among the runs that are driven at once, and the wait for it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


class Place:
    """The place of one run. A run that is to end before it has one needs none."""

    def __init__(self) -> None:
        self._given_up = False
        self._wait = trio.CancelScope()

    def give_up(self) -> None:
        """The run is to end: it waits for a place no longer."""
        self._given_up = True
        self._wait.cancel()

    @asynccontextmanager
    async def taken(self, room: trio.CapacityLimiter | None, expiry: float) -> AsyncGenerator[None, None]:
        """The block runs in the run's place, or without one where it was given up, or waited for until `expiry`."""
        entered = room is not None and await self._enter(room, expiry)
        try:
            yield
        finally:
            if room is not None and entered:
                room.release_on_behalf_of(self)

    async def _enter(self, room: trio.CapacityLimiter, expiry: float) -> bool:
        self._wait = trio.CancelScope(deadline=expiry)
        if self._given_up:
            self._wait.cancel()
        with self._wait:
            await room.acquire_on_behalf_of(self)
            return True
        return False
