"""The waiting shell of the budget: reserve now, or wait for a settlement and decide again."""

from collections.abc import Callable
from typing import TypeVar

import trio

from agents.budget import Blocked, Scope

T = TypeVar("T")


class _Waiter:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = trio.Event()


async def when_room(decide: Callable[[], T | Blocked]) -> T:
    """Calls `decide` until it answers something else than `Blocked`, after each settlement that may matter.

    `decide` is synchronous and reserves all it needs or nothing. Waiters of one scope are woken first come, first
    served, and one at a time: each leaves (with its reservation or without) before the next is woken.
    """
    decision = decide()
    if not isinstance(decision, Blocked):
        return decision
    waiter = _Waiter()
    place: Scope = decision.scope
    place.wait(waiter)
    try:
        while True:
            await waiter.wait()
            decision = decide()
            if not isinstance(decision, Blocked):
                return decision
            if decision.scope is not place:
                place.leave(waiter)
                place = decision.scope
                place.wait(waiter)
    finally:
        place.leave(waiter)
