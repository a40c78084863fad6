"""A change that any number of tasks wait for, without a queue per waiter: who is slow misses nothing but the count."""

import trio


class Signal:
    """`version` rises with every `ring`. Ringing costs next to nothing while nobody waits."""

    __slots__ = ("_event", "version")

    def __init__(self) -> None:
        self.version = 0
        self._event: trio.Event | None = None

    def ring(self) -> None:
        """Wakes all who wait."""
        self.version += 1
        if self._event is not None:
            self._event.set()
            self._event = None

    async def beyond(self, version: int) -> None:
        """Returns when it has rung since that version. Always a checkpoint."""
        if self.version != version:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()

    def __repr__(self) -> str:
        return f"<Signal {self.version}{' waited for' if self._event is not None else ''}>"
