"""The store in one SQLite file: the default.

One thread writes, in groups with one sync each, and one reads; both have a connection of their own. One process at a
time has the file: a lock beside it names its holder. So executors' beats need no disk: whoever was alive in an earlier
process is not any more, and its sessions are free as soon as the file is open.

Durable means: SQLite's write-ahead log is synced at every commit (`synchronous = FULL`), and nothing is acknowledged
before its commit. A log that is torn behind its last commit is as if that tail had never been written.
"""

import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from orchestrator.lockfile import Held, hold
from orchestrator.store import sqlite_moves, sqlite_prune, sqlite_read
from orchestrator.store.base import (
    LEASE_SECONDS,
    PAGE,
    Batch,
    Pruned,
    Record,
    RunQuery,
    RunRow,
    RunRows,
    SessionView,
)
from orchestrator.store.bells import Bells, follow
from orchestrator.store.desk import Desk, Work
from orchestrator.store.errors import StoreLocked, StoreUnusable
from orchestrator.store.rules import Executors, created_by
from orchestrator.store.sqlite_errors import problem
from orchestrator.store.sqlite_group import Group
from orchestrator.store.sqlite_ledger import SqliteLedger, make_ledger_tables
from orchestrator.store.sqlite_reader import Reader
from orchestrator.store.sqlite_schema import connect, prepare
from orchestrator.store.sqlite_writer import Writer

T = TypeVar("T")

BUSY_SECONDS: Final = 5.0
"""How long a write waits for another program that has the file locked."""


class SqliteStore:
    """Implements `Store`; `open_sqlite` makes it. What it is given to run gets a connection inside a transaction."""

    kind: Literal["sqlite"] = "sqlite"
    durable = True

    def __init__(
        self, path: Path, writing: sqlite3.Connection, reading: sqlite3.Connection, wall: Callable[[], float]
    ) -> None:
        self.path = path
        self._executors = Executors()
        self._bells = Bells()
        self._writer = Desk("store writer", Writer(writing, path, wall).handle, then=self._ring, last=writing.close)
        self._reader = Desk("store reader", Reader(reading, path).handle, last=reading.close, group=16)
        self._ledger = SqliteLedger(self)

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}: {self._writer.waiting} writes wait>"

    # What the ledger is built on

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in the writer's next group; returns when that is durable.

        It may be run again, whole: where another one of the group fails, the group is rolled back and repeated.
        """
        result: T = await self._writer.do(Work(lambda group: work(group.connection)))
        return result

    def post(
        self, work: Callable[[sqlite3.Connection], object], failed: Callable[[Exception], object] | None = None
    ) -> None:
        """Like `submit`, without waiting. `failed` is called on the loop's thread where it could not be done."""
        self._writer.hand_over(Work(lambda group: work(group.connection), failed=failed))

    async def move(self, move: Callable[[Group], T]) -> T:
        """Like `submit`, for what the store's own rooms do."""
        result: T = await self._writer.do(Work(move))
        return result

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the reader's connection, which cannot write."""
        result: T = await self._reader.do(Work(work))
        return result

    # Executors

    async def beat(self, holder: str, seconds: float = LEASE_SECONDS) -> None:
        await self._move(sqlite_moves.beat(self._executors, holder, seconds))

    async def drop(self, holder: str) -> None:
        await self._move(sqlite_moves.drop(self._executors, holder))

    async def take(self, session: str, holder: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        move = sqlite_moves.take(self._executors, session, holder, tenant, batch)
        return await self._move(move, session, batch)

    async def release(self, session: str, generation: int) -> None:
        await self._move(sqlite_moves.release(session, generation), session)

    # Logs

    async def append(self, batch: Batch, generation: int) -> int:
        return await self._move(sqlite_moves.append(batch, generation), batch.session, batch)

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        return await self._move(sqlite_moves.append_external(session, key, records), session)

    async def read(self, session: str, after: int = 0, size: int = PAGE) -> list[Record]:
        return await self.query(lambda connection: sqlite_read.read(connection, session, after, size))

    def watch(self, session: str, after: int = 0) -> AsyncGenerator[Record, None]:
        return follow(self._bells, self.read, session, after)

    # The index

    async def session(self, session: str) -> SessionView:
        return await self.query(lambda connection: sqlite_read.one_session(connection, session))

    async def sessions(self, *, tenant: str = "", after: str = "", size: int = 100) -> list[SessionView]:
        return await self.query(lambda connection: sqlite_read.sessions(connection, tenant, after, size))

    async def run(self, run: str) -> RunRow | None:
        return await self.query(lambda connection: sqlite_read.one_run(connection, run))

    async def runs(self, query: RunQuery) -> RunRows:
        return await self.query(lambda connection: sqlite_read.runs(connection, query))

    async def states(self, tenant: str = "") -> dict[str, int]:
        return await self.query(lambda connection: sqlite_read.states(connection, tenant))

    # Blobs

    async def put_blob(self, data: bytes) -> str:
        return await self._move(lambda group: group.keep(data, put=True))

    async def get_blob(self, digest: str) -> bytes | None:
        return await self.query(lambda connection: sqlite_read.blob(connection, digest))

    # The ledger

    @property
    def ledger(self) -> SqliteLedger:
        return self._ledger

    # Upkeep

    async def prune(self, before: float) -> Pruned:
        return await sqlite_prune.prune(self, self._executors, before, self._bells.ring)

    async def aclose(self) -> None:
        # The writer's connection is the last to close, and so the one that puts its log into the file.
        await self._reader.aclose()
        await self._writer.aclose()
        self._bells.ring_all()

    def _move(
        self, move: Callable[[Group], T], session: str = "", batch: Batch | None = None
    ) -> Coroutine[Any, Any, T]:
        creates = tuple(row.run for row in created_by(batch)) if batch is not None and batch.runs else ()
        return self._writer.do(Work(move, session=session, creates=creates, own=True))

    def _ring(self, works: list[Work]) -> None:
        if len(self._bells):
            for session in {work.session for work in works if work.session and work.error is None}:
                self._bells.ring(session)


@asynccontextmanager
async def open_sqlite(
    path: Path,
    *,
    wall: Callable[[], float] = time.time,
    max_pages: int | None = None,
    busy_seconds: float = BUSY_SECONDS,
) -> AsyncGenerator[SqliteStore, None]:
    """Opens the store in this file, making it if need be, for as long as the block lasts. Raises `StoreError`.

    `wall` is its clock, in seconds since the epoch; `max_pages` (of 4 KiB each) the most that the file may grow to.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(path.with_name(path.name + ".lock")))
        except Held as held:
            raise StoreLocked(
                f"store {path}: another daemon has it ({held.holder}); end that one, or name another file"
            ) from None
        except OSError as error:
            raise StoreUnusable(f"store {path}: {(error.strerror or str(error)).lower()}") from error
        store = _open(path, wall, max_pages, busy_seconds)
        try:
            yield store
        finally:
            await store.aclose()


def _open(path: Path, wall: Callable[[], float], max_pages: int | None, busy_seconds: float) -> SqliteStore:
    with ExitStack() as stack:
        try:
            # Prompts and answers are in it: nobody but its owner reads it. What SQLite puts beside it follows its mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            writing = connect(path, busy_seconds=busy_seconds)
            stack.callback(writing.close)
            prepare(writing, path, max_pages)
            make_ledger_tables(writing)
            reading = connect(path, busy_seconds=busy_seconds, read_only=True)
            stack.callback(reading.close)
            store = SqliteStore(path, writing, reading, wall)
        except sqlite3.Error as error:
            raise problem(error, path) from error
        except OSError as error:
            raise StoreUnusable(f"store {path}: {(error.strerror or str(error)).lower()}") from error
        stack.pop_all()
    return store
