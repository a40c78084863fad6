"""One run's log in memory, which any number of readers can watch while it grows.

A reader goes through the stored records by their number and waits only when it has read them all. So it misses and
repeats nothing, whenever it joins, and one that is slow costs neither the run nor the other readers anything.
"""

from collections.abc import AsyncGenerator, Sequence

import trio

from agents.events import Event, encode


class RunLog:
    """Implements `agents.port.Journal` for one run. It is gone with its process."""

    __slots__ = ("_bell", "_closed", "_records")

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self._closed = False
        self._bell: trio.Event | None = None

    def __len__(self) -> int:
        return len(self._records)

    async def append(self, events: Sequence[Event]) -> None:
        """Appends all events or, where one cannot be encoded, none."""
        records = [encode(event) for event in events]
        await trio.lowlevel.checkpoint()
        self._records += records
        self._ring()

    def close(self) -> None:
        """Nothing follows any more: readers end behind the last record."""
        self._closed = True
        self._ring()

    async def watch(self, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]:
        """The records behind number `after`, numbered from 1, as JSON; with `follow` new ones as they come, until the
        log is closed.

        With every record a checkpoint, so that a long log read fast stops nobody else.
        """
        number = after
        while True:
            while number < len(self._records):
                number += 1
                await trio.lowlevel.checkpoint()
                yield number, self._records[number - 1]
            if self._closed or not follow:
                return
            await self._more()

    async def _more(self) -> None:
        if self._bell is None:
            self._bell = trio.Event()
        await self._bell.wait()

    def _ring(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()

    def __repr__(self) -> str:
        return f"<RunLog {len(self)} events{' closed' if self._closed else ''}>"
