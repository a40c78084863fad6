"""The slots that a tool call holds while its work goes on: its tool's own, and a thread's if it blocks."""

import trio

from agents.tools import BaseTool


class ToolSlots:
    """Lets `to_thread` run at once under slots that are held already, and gives them back when the thread ends.

    An abandoned thread keeps its slots until then, so that abandoned work stays bounded as well.
    """

    __slots__ = ("_limiters",)

    def __init__(self, limiters: list[trio.CapacityLimiter]) -> None:
        self._limiters = limiters

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    def release_on_behalf_of(self, borrower: object) -> None:
        self.release()

    async def acquire(self) -> None:
        """Takes every slot, or none when cancelled."""
        taken: list[trio.CapacityLimiter] = []
        try:
            for limiter in self._limiters:
                await limiter.acquire_on_behalf_of(self)
                taken.append(limiter)
        except BaseException:
            for limiter in taken:
                limiter.release_on_behalf_of(self)
            raise

    def release(self) -> None:
        for limiter in self._limiters:
            limiter.release_on_behalf_of(self)
        self._limiters = []


def slots_for(tool: BaseTool) -> ToolSlots:
    """The slots that a call to this tool needs: the tool's own, and a thread's if it blocks."""
    limiters = [] if tool.limiter is None else [tool.limiter]
    if tool.blocking:
        limiters.append(trio.to_thread.current_default_thread_limiter())
    return ToolSlots(limiters)


class Turn:
    """One call's turn to begin: what a tool does at once, such as cancelling its run, comes before the next start."""

    __slots__ = ("_mine", "_order")

    def __init__(self, order: trio.Semaphore) -> None:
        self._order = order
        self._mine = False

    async def take(self) -> None:
        """Waits until every call before it has begun, or never will."""
        await self._order.acquire()
        self._mine = True

    def over(self) -> None:
        """It has begun, or never will. Repeating it is harmless."""
        if self._mine:
            self._mine = False
            self._order.release()
