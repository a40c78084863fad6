"""The log of a run that a worker appends to: each batch once, behind all that is there, paid for in one move."""

from collections.abc import Callable, Sequence
from typing import Final

import trio
from msgspec import Raw

from agents.budget import Blocked, Exhausted
from agents.events import (
    ApprovalDecided,
    BudgetGranted,
    Event,
    InputGiven,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    RunCreated,
    ToolLate,
    UnknownEvent,
    decode,
    encode,
)
from agents.port import Journal, Newcomers, NoRoom
from orchestrator.pools.errors import ClaimGone
from orchestrator.pools.material import records_after
from orchestrator.pools.remote_books import RemoteBooks
from orchestrator.pools.remote_progress import RemoteProgress
from orchestrator.runs.journal import SessionJournal
from orchestrator.store.base import Record, Store
from orchestrator.views.workers import AppendAnswer, AppendRequest

FOREIGN: Final = (RunCreated, MessageAdded, BudgetGranted, ApprovalDecided, InputGiven, ToolLate)
"""Events that no executor of a run appends."""


class RemoteLog:
    """One run's log. `begin` makes the progress of a run of which nothing was read; `on_end` is called with each model
    call's key that has its end in the log.
    """

    def __init__(
        self,
        store: Store,
        session: str,
        run: str,
        journal: SessionJournal,
        log: Journal,
        books: RemoteBooks,
        begin: Callable[[Sequence[Event]], RemoteProgress],
    ) -> None:
        self.progress: RemoteProgress | None = None
        self.on_end: Callable[[str], None] = lambda key: None
        self._store = store
        self._session, self._run = session, run
        self._journal = journal
        self._log = log
        self._books = books
        self._begin = begin
        self._lock = trio.Lock()

    async def known(self) -> RemoteProgress:
        """Where it stands, read where it was not. Raises `StoreError`."""
        async with self._lock:
            return await self._known()

    async def whole(self) -> list[Record]:
        """All records of the session; all that they tell is known from here on. Raises `StoreError`."""
        async with self._lock:
            known = await self._known()
            records = await records_after(self._store, self._session, 0)
            self._take_in(known, [decode(record.data) for record in records[known.number :]])
            return records

    async def append(self, request: AppendRequest) -> AppendAnswer:
        """Appends a worker's batch, unless it is there already. Raises `ClaimGone`, `UnknownEvent`, `StoreError`."""
        events = tuple(decode(bytes(event)) for event in request.events)
        for event in events:
            if event.run != self._run or isinstance(event, FOREIGN):
                raise UnknownEvent(f"{event.__struct_config__.tag} is nothing that a worker appends to run {self._run}")
        async with self._lock:
            known = await self._known()
            if request.after != known.number:
                return await self._behind(known, request.after, events)
            return await self._append(known, events, request.batch)

    async def append_here(self, events: Sequence[Event]) -> None:
        """Appends for somebody in this process; see `agents.port.Journal`."""
        async with self._lock:
            known = await self._known()
            answer = await self._append(known, tuple(events), "")
            if answer.outcome == "no_room":
                raise NoRoom(answer.exhausted)
            if answer.outcome == "newcomers":
                raise Newcomers([decode(bytes(event)) for event in answer.newcomers])

    async def _append(self, known: RemoteProgress, events: tuple[Event, ...], batch: str) -> AppendAnswer:
        announced = self._books.announce(events, known.started_calls)
        if isinstance(announced, Exhausted):
            return AppendAnswer(outcome="no_room", exhausted=announced)
        if isinstance(announced, Blocked):
            return AppendAnswer(outcome="no_room")
        self._journal.batch = batch
        try:
            with trio.CancelScope(shield=True):  # cut off in the middle, nobody could say what is in the log
                await self._log.append(events)
        except Newcomers as newcomers:
            announced.undo()
            self._take_in(known, newcomers.events)
            return AppendAnswer(outcome="newcomers", newcomers=_raw(newcomers.events))
        except BaseException:
            announced.undo()
            raise
        self._books.appended(events, announced, trio.current_time())
        known.add(events)
        for event in events:
            if isinstance(event, ModelReplied | ModelFailed):
                self.on_end(f"{event.run}/{event.step}/{event.attempt}")
        return AppendAnswer(outcome="appended")

    async def _behind(self, known: RemoteProgress, after: int, events: tuple[Event, ...]) -> AppendAnswer:
        """The worker does not know of all that is here: because it was not told that its batch is in, or because of
        newcomers. The same events in the same place are the same batch.
        """
        records = await records_after(self._store, self._session, after)
        self._take_in(known, [decode(record.data) for record in records if record.number > known.number])
        if not records:
            raise ClaimGone(f"the log of session {self._session} is not as long as this worker says")
        if [record.data for record in records[: len(events)]] == [encode(event) for event in events]:
            return AppendAnswer(outcome="appended")
        return AppendAnswer(outcome="newcomers", newcomers=tuple(Raw(record.data) for record in records))

    async def _known(self) -> RemoteProgress:
        if self.progress is None:
            records = await records_after(self._store, self._session, 0)
            self.progress = self._begin([decode(record.data) for record in records])
            self._journal.number = self.progress.number
        return self.progress

    def _take_in(self, known: RemoteProgress, events: Sequence[Event]) -> None:
        """What others have appended."""
        known.add(events)
        self._journal.number = known.number


def _raw(events: Sequence[Event]) -> tuple[Raw, ...]:
    return tuple(Raw(encode(event)) for event in events)
