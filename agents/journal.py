"""A journal in memory: whole and ordered, but gone with its process."""

from collections.abc import Sequence

import trio

from agents.events import Event, decode, encode


class MemoryJournal:
    """Keeps events in order, encoded as a store would keep them, so that no reader shares objects with a writer."""

    survives_restart = False

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: list[bytes] = []

    async def append(self, events: Sequence[Event]) -> None:
        """Appends all events or, where one cannot be encoded, none."""
        records = [encode(event) for event in events]
        await trio.lowlevel.checkpoint()
        self._records += records

    async def late(self, event: Event) -> None:
        """Appends evidence; see `agents.port.TakesLate`."""
        await self.append([event])

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything appended so far."""
        return tuple(decode(record) for record in self._records)

    def of(self, run: str) -> tuple[Event, ...]:
        """The events of one run."""
        return tuple(event for event in self.events if event.run == run)

    def __len__(self) -> int:
        return len(self._records)
