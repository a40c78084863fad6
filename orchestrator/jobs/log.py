"""A job's log in the store: appended to by one daemon at a time, many events in one batch.

Who appends waits until its events are kept. Those that come while a batch is on its way go together into the next one,
so a thousand workers that end at once wait for two batches and not for a thousand.
"""

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import trio

from orchestrator.jobs.events import JobEvent, encode, session_of
from orchestrator.store.base import Batch, Record, Store
from orchestrator.store.errors import Conflict, StoreError, UnknownSession

HOLDER: Final = "jobs"
"""Which executor holds the logs of jobs. Only the one active daemon of a store works at jobs, so a daemon that follows
another is the same executor with a later generation, and need not wait until the earlier one counts as dead.

So nobody is kept out by how long it counts as alive, and it always does: what it holds is never pruned. It lets go of a
log when the job has ended, and not before."""

LEASE: Final = 100 * 365 * 86_400.0
READ: Final = 200
"""Events read at once: a result may be long."""


class _Entry:
    __slots__ = ("done", "error", "events", "then")

    def __init__(self, events: Sequence[JobEvent], then: Callable[[], None]) -> None:
        self.events = events
        self.then = then
        self.done = False
        self.error: Exception | None = None


class JobLog:
    """The log of one job, taken. Every method may raise `StoreError`. `last` is the number of its last event.

    Nothing is appended behind a batch that failed, since nobody could say whether it is there: take the log again.
    """

    def __init__(self, store: Store, job: str, generation: int, last: int) -> None:
        self.job = job
        self.last = last
        self._store = store
        self._session = session_of(job)
        self._generation = generation
        self._turn = trio.Lock()
        self._failure: StoreError | None = None
        self._waiting: list[_Entry] = []

    def __repr__(self) -> str:
        return f"<JobLog {self._session} at {self.last}, {len(self._waiting)} waiting>"

    @staticmethod
    async def announce(store: Store) -> None:
        """From here on logs of jobs that have not ended stay, whoever prunes the store."""
        await store.beat(HOLDER, LEASE)

    @classmethod
    async def begin(cls, store: Store, job: str, tenant: str, events: Sequence[JobEvent], after: int = 0) -> "JobLog":
        """Makes the log with its first events, or takes one that there is with others behind `after`."""
        await cls.announce(store)
        session = session_of(job)
        records = tuple(encode(event) for event in events)
        batch = Batch(session=session, id=secrets.token_hex(8), after=after, records=records)
        view = await store.take(session, HOLDER, tenant=tenant, batch=batch)
        return cls(store, job, view.generation, view.last)

    @classmethod
    async def take(cls, store: Store, job: str) -> "JobLog":
        """Takes a log that there is: whoever had it before appends nothing any more. Raises `UnknownSession`."""
        await cls.announce(store)
        view = await store.take(session_of(job), HOLDER)
        return cls(store, job, view.generation, view.last)

    @classmethod
    async def find(cls, store: Store, job: str) -> int:
        """The number of the last event of a job's log, 0 where there is none."""
        try:
            return (await store.session(session_of(job))).last
        except UnknownSession:
            return 0

    async def append(self, *events: JobEvent, then: Callable[[], None] = lambda: None) -> None:
        """Returns when the events are kept. `then` is called once they are, in the order of the log.

        What `then` raises is raised here; the events are kept all the same. For a caller that is shielded: others
        depend on whoever has the turn.
        """
        entry = _Entry(events, then)
        self._waiting.append(entry)
        async with self._turn:
            if not entry.done:
                await self._commit()
        if entry.error is not None:
            raise entry.error

    async def release(self) -> None:
        """Lets go of it, since the job has ended."""
        await self._store.release(self._session, self._generation)

    async def _commit(self) -> None:
        entries, self._waiting = self._waiting, []
        records = tuple(encode(event) for entry in entries for event in entry.events)
        batch = Batch(session=self._session, id=secrets.token_hex(8), after=self.last, records=records)
        try:
            if self._failure is not None:
                raise self._failure
            self.last = await self._append(batch)
        except StoreError as error:
            self._failure = error
            for entry in entries:
                entry.done, entry.error = True, error
            return
        for entry in entries:
            entry.done = True
            try:
                entry.then()
            except Exception as error:
                entry.error = error

    async def _append(self, batch: Batch) -> int:
        try:
            return await self._store.append(batch, self._generation)
        except Conflict as conflict:  # somebody wrote into it from outside; that changes nothing here
            await trio.lowlevel.checkpoint()
            return await self._store.append(
                Batch(session=batch.session, id=batch.id, after=conflict.last, records=batch.records), self._generation
            )


async def pages(store: Store, job: str, after: int = 0) -> AsyncGenerator[list[Record], None]:
    """The events behind a number up to the last one, in pages. Raises `StoreError`."""
    while page := await store.read(session_of(job), after, READ):
        yield page
        after = page[-1].number
