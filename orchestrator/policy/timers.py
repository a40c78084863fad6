"""Things that become due: a heap of (time, order, thing) with lazy removal.

Removing from the middle of a heap is dear and rarely needed, since most things come due or are forgotten. So whoever
forgets a thing only says that one entry is stale, and judges by the thing's own state when it comes due; when more than
half of the entries are stale, those that no longer matter are swept out.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

SWEEP_FROM = 64


class Timers(Generic[T]):
    """A queue of things by the time they become due. `matters` tells which entries a sweep keeps."""

    __slots__ = ("_heap", "_matters", "_order", "_stale")

    def __init__(self, matters: Callable[[T], bool]) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._matters = matters
        self._order = 0
        self._stale = 0

    def add(self, at: float, thing: T) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, thing))

    def next(self) -> float:
        """When the next entry, stale or not, becomes due; infinity if there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now: float) -> Iterator[T]:
        """Takes out and yields what is due and matters, earliest first."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            thing = heapq.heappop(heap)[2]
            if self._matters(thing):
                yield thing
            elif self._stale:
                self._stale -= 1

    def forget(self) -> None:
        """One entry does not matter any more."""
        self._stale += 1
        if self._stale > SWEEP_FROM and 2 * self._stale > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if self._matters(entry[2])]
            heapq.heapify(self._heap)
            self._stale = 0

    def __len__(self) -> int:
        return len(self._heap) - self._stale
