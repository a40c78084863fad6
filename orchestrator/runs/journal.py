"""One run's way into its session's log."""

from collections.abc import Callable, Sequence
from typing import Final

from agents.events import Event, RunCreated, RunEnded, RunStarted, ToolLate, decode, encode
from agents.port import Newcomers
from orchestrator.runs.executor import Executor
from orchestrator.runs.head import Head
from orchestrator.store.base import Batch, RunRow, Store
from orchestrator.store.errors import Conflict

_TURNING: Final = (RunCreated, RunStarted, RunEnded)
"""Events that change a run's row in the index."""


class SessionJournal:
    """Implements `agents.port.Journal` for a run of a session; `grew` is told what was appended.

    `number` is that of the last event of the session that the run knows, `generation` that of the lease it appends
    under; with 0 the first append takes the lease, and makes the session. The index of runs changes in the same move
    as the log, when the run is created, begins and ends. `batch` is an id for the next batch, one of its own if empty.
    """

    __slots__ = ("_executor", "_grew", "_session", "_store", "_tenant", "batch", "generation", "head", "number")

    def __init__(
        self,
        store: Store,
        executor: Executor,
        session: str,
        tenant: str,
        *,
        grew: Callable[[Sequence[Event]], None],
        head: Head | None = None,
        number: int = 0,
        generation: int = 0,
    ) -> None:
        self._store = store
        self._executor = executor
        self._session, self._tenant = session, tenant
        self._grew = grew
        self.head = head
        self.number = number
        self.generation = generation
        self.batch = ""

    async def append(self, events: Sequence[Event]) -> None:
        """Appends all events or none; see `agents.port.Journal`. Raises `StoreError` where the store cannot."""
        head, rows = self._told(events)
        id, self.batch = self.batch or self._executor.batch_id(), ""
        batch = Batch(
            session=self._session,
            id=id,
            after=self.number,
            records=tuple(encode(event) for event in events),
            runs=rows,
        )
        if not self.generation:
            self.generation = (await self._executor.take(self._session, tenant=self._tenant, batch=batch)).generation
        else:
            try:
                await self._store.append(batch, self.generation)
            except Conflict as conflict:
                raise Newcomers(await self._newcomers(conflict.last)) from None
        self.number += len(events)
        self.head = head
        self._grew(events)

    async def late(self, event: ToolLate) -> None:
        """Appends evidence, whoever holds the session by now; see `agents.port.TakesLate`. Raises `StoreError`."""
        await self._store.append_external(self._session, f"late:{event.key}", [encode(event)])

    def _told(self, events: Sequence[Event]) -> tuple[Head | None, tuple[RunRow, ...]]:
        head, first = self.head, events[0]
        if isinstance(first, RunCreated):
            head = Head.of(first, self.number)
        if head is None or not any(isinstance(event, _TURNING) for event in events):
            return head, ()
        head = head.then(events)
        return head, (head.row(),)

    async def _newcomers(self, last: int) -> list[Event]:
        events: list[Event] = []
        while self.number < last:
            for record in await self._store.read(self._session, self.number):
                events.append(decode(record.data))
                self.number = record.number
        return events

    async def close_lost(self, ended: RunEnded) -> None:
        """Says in the index alone how the run ended, in a store from which nobody takes it up."""
        if self.head is None or not self.generation:
            return
        self.head = self.head.then([ended])
        batch = Batch(
            session=self._session,
            id=self._executor.batch_id(),
            after=self.number,
            records=(),
            runs=(self.head.row(),),
        )
        await self._store.append(batch, self.generation)

    def __repr__(self) -> str:
        return f"<SessionJournal {self._session} at {self.number}, generation {self.generation}>"
