"""The store in PostgreSQL, for several processes at a time: one writes for the active daemon, others stand by.

Every decision is taken on rows that are locked for it, so nothing is remembered here between two groups. psycopg
blocks, so it stays in threads: one that writes (`postgres_writer`), a few that read, one that listens to what other
processes append, once somebody watches.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import psycopg
import trio

from orchestrator.store import postgres_reads as reads
from orchestrator.store import postgres_upkeep as upkeep
from orchestrator.store.base import LEASE_SECONDS, PAGE, Batch, Pruned, Record, RunQuery, RunRow, RunRows, SessionView
from orchestrator.store.bells import Bells, follow
from orchestrator.store.desk import Desk, Work
from orchestrator.store.errors import NotActive, StoreClosed
from orchestrator.store.postgres_lease import DaemonLease, Leader, look
from orchestrator.store.postgres_ledger import PostgresLedger, make_ledger_tables
from orchestrator.store.postgres_link import Address, cannot_connect
from orchestrator.store.postgres_moves import Move
from orchestrator.store.postgres_notices import Notices
from orchestrator.store.postgres_readers import Readers
from orchestrator.store.postgres_schema import Link, prepare
from orchestrator.store.postgres_writer import Step, Writer

T = TypeVar("T")

CLOSE_SECONDS: Final = 10.0
"""How long a server may take for the last group, when the store is closed."""


class PostgresStore:
    """Implements `Store`. Functions given to it get a connection inside a transaction, whose rows are tuples.

    They may be run again, whole, after a lost connection or because of another one's failure: what they write must
    come out the same then. `lost` is set when this process has led and may not any more.
    """

    kind: Literal["postgres"] = "postgres"
    durable = True

    def __init__(self, address: Address, link: Link, *, holder: str, lease: float, patience: float) -> None:
        self.holder = holder
        self.lost = trio.Event()
        self._address = address
        self._bells = Bells()
        self._readers = Readers(address, patience=patience)
        self._lease = DaemonLease(self._readers, self._bells, holder, lease)
        self._writer = Writer(address, link, patience=patience)
        self._desk = Desk("postgres writer", self._writer.handle, then=self._written, last=self._writer.close)
        self._notices: Notices | None = None
        self._closed = False
        self._ledger = PostgresLedger(self)

    @classmethod
    async def open(cls, dsn: str, *, holder: str, schema: str, lease: float, patience: float) -> "PostgresStore":
        """Connects, and brings the tables up to date. Raises `StoreUnusable`."""
        address = Address(dsn, schema)

        def connect() -> Link:
            link = address.connect()
            try:
                prepare(link, schema, make_ledger_tables)
            except BaseException:
                link.close()
                raise
            return link

        try:
            link = await trio.to_thread.run_sync(connect)
        except psycopg.Error as error:
            raise cannot_connect(address, error) from None
        return cls(address, link, holder=holder, lease=lease, patience=patience)

    # What others build on

    async def submit(self, work: Callable[[Link], T]) -> T:
        """Runs `work` in the writer's next group; returns when that is durable."""
        value: T = await self._desk.do(Work(work))
        return value

    def post(self, work: Callable[[Link], object], failed: Callable[[Exception], object] | None = None) -> None:
        """Like `submit`, without waiting. `failed` is called on the loop's thread where it could not be done."""
        self._desk.hand_over(Work(work, failed=failed))

    async def query(self, work: Callable[[Link], T]) -> T:
        """Runs `work` on a connection for reading, where each statement is a transaction."""
        return await self._readers.query(work)

    # The daemon's lease

    async def lead(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Waits until this process is the active daemon, then starts, and keeps the lease.

        Returns when it was lost, with `lost` set. Cancelled, it gives the lease back: so cancel it when nothing is left
        to be written. From the moment that it leads, this store writes only while nobody else does.
        """
        self._listen()
        self._writer.epoch = await self._lease.wait()
        try:
            task_status.started()
            await self._lease.keep()
            self.lost.set()
        finally:
            if not self.lost.is_set():
                await self._lease.release()

    async def leader(self) -> Leader:
        """Who leads."""
        return await self._readers.query(look)

    # Executors

    async def beat(self, holder: str, seconds: float = LEASE_SECONDS) -> None:
        await self.submit(upkeep.beat(holder, seconds))

    async def drop(self, holder: str) -> None:
        await self.submit(upkeep.drop(holder))

    async def take(self, session: str, holder: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        view: SessionView = await self._do(
            Move(kind="take", session=session, holder=holder, tenant=tenant, batch=batch)
        )
        return view

    async def release(self, session: str, generation: int) -> None:
        await self._do(Move(kind="release", session=session, generation=generation))

    # Logs

    async def append(self, batch: Batch, generation: int) -> int:
        last: int = await self._do(Move(kind="append", session=batch.session, batch=batch, generation=generation))
        return last

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        batch = Batch(session=session, id=key, after=0, records=tuple(records))
        last: int = await self._do(Move(kind="outside", session=session, batch=batch))
        return last

    async def read(self, session: str, after: int = 0, size: int = PAGE) -> list[Record]:
        return await self._readers.query(reads.records(session, after, size))

    def watch(self, session: str, after: int = 0) -> AsyncGenerator[Record, None]:
        self._listen()
        return follow(self._bells, self.read, session, after)

    # The index

    async def session(self, session: str) -> SessionView:
        return await self._readers.query(reads.one_session(session))

    async def sessions(self, *, tenant: str = "", after: str = "", size: int = 100) -> list[SessionView]:
        return await self._readers.query(reads.some_sessions(tenant, after, size))

    async def run(self, run: str) -> RunRow | None:
        return await self._readers.query(reads.one_run(run))

    async def runs(self, query: RunQuery) -> RunRows:
        return await self._readers.query(reads.some_runs(query))

    async def states(self, tenant: str = "") -> dict[str, int]:
        return await self._readers.query(reads.states(tenant))

    # Blobs, the ledger, upkeep

    async def put_blob(self, data: bytes) -> str:
        digest, write = upkeep.put_blob(data)
        await self.submit(write)
        return digest

    async def get_blob(self, digest: str) -> bytes | None:
        return await self._readers.query(reads.blob(digest))

    @property
    def ledger(self) -> PostgresLedger:
        return self._ledger

    async def prune(self, before: float) -> Pruned:
        sessions = runs = events = 0
        while True:
            part = await self.submit(upkeep.prune_sessions(before))
            sessions, runs, events = sessions + part.sessions, runs + part.runs, events + part.events
            self._bells.ring_all()
            if part.sessions < upkeep.PORTION:
                break
        blobs = await self.query(upkeep.orphans(before))
        calls = await self.submit(upkeep.prune_rest(before, blobs))
        return Pruned(sessions=sessions, runs=runs, events=events, calls=calls)

    async def aclose(self) -> None:
        """Finishes what was handed over; where the server is away, that fails at once, and soon where it hangs."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        self._writer.hurry()
        self._readers.close()
        self._bells.ring_all()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            nursery.start_soon(self._cut_later)
            await self._desk.aclose()
            if self._notices is not None:
                self._notices.close()
                with trio.move_on_after(CLOSE_SECONDS):
                    await trio.to_thread.run_sync(self._notices.join, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()

    def __repr__(self) -> str:
        return f"<PostgresStore {self._address!r} groups={self._writer.groups} waiting={self._desk.waiting}>"

    async def _cut_later(self) -> None:
        await trio.sleep(CLOSE_SECONDS)
        self._writer.cut()

    async def _do(self, move: Move) -> Any:
        return await self._desk.do(Step(move))

    def _written(self, group: list[Work]) -> None:
        for work in group:
            if isinstance(work, Step) and work.what.batch is not None and work.error is None:
                self._bells.ring(work.what.session)
            elif isinstance(work.error, NotActive):
                self.lost.set()

    def _listen(self) -> None:
        """Begins to listen to what other processes append."""
        if self._closed:
            raise StoreClosed("the store is closed")
        if self._notices is None:
            self._notices = Notices(self._address, self._noticed, lambda: self._writer.pid)

    def _noticed(self, sessions: list[str] | None) -> None:
        if sessions is None:
            self._bells.ring_all()
        for session in sessions or ():
            self._bells.ring(session)
