"""One transaction of the writer: what its moves append is gathered, and written in few statements at the end."""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from orchestrator.store.base import Batch, RunRow
from orchestrator.store.errors import UnknownSession
from orchestrator.store.rules import created_by, duplicate_run, must_be_of
from orchestrator.store.sqlite_heads import Head, Heads
from orchestrator.store.sqlite_insert import insert

BLOB_BYTES: Final = 131_072
"""Longer records are kept beside the log."""

_SESSIONS: Final = (
    "INSERT INTO sessions (id, name, tenant, generation, holder, created) VALUES ",
    " ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, holder = excluded.holder",
)
_BLOBS: Final = (
    "INSERT INTO blobs (digest, data, kept, put) VALUES ",
    " ON CONFLICT (digest) DO UPDATE SET kept = excluded.kept, put = put OR excluded.put",
)
_EVENTS: Final = ("INSERT INTO events (session, number, batch, at, data, blob) VALUES ", "")
_RUNS: Final = (
    "INSERT INTO runs (run, session, tenant, job, state, open, after, created, head) VALUES ",
    " ON CONFLICT (run) DO UPDATE SET state = excluded.state, open = excluded.open, head = excluded.head",
)


class FlushFailed(Exception):
    """What was gathered could not be written, and nobody knows whose it was. `error` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Group:
    """The transaction in progress. It begins with the first write, so that moves which write nothing cost no sync."""

    def __init__(self, connection: sqlite3.Connection, heads: Heads, now: float) -> None:
        self._raw = connection
        self._heads = heads
        self.now = now
        self.used: set[str] = set()
        self._sessions: dict[int, Head] = {}
        self._blobs: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._runs: list[tuple[Any, ...]] = []
        self._known: set[str] = set()
        self._asked: set[str] = set()

    def load(self, sessions: Iterable[str], runs: Iterable[str]) -> None:
        """Reads at once what the group's moves will ask for."""
        names = set(sessions)
        self.used |= names
        self._heads.load(self._raw, names)
        asked = list(set(runs))
        if asked:
            self._asked.update(asked)
            (found,) = self._raw.execute(
                "SELECT json_group_array(run) FROM runs WHERE run IN (SELECT value FROM json_each(?))",
                (msgspec.json.encode(asked).decode(),),
            ).fetchone()
            self._known.update(msgspec.json.decode(found))

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, inside the transaction and with all that was gathered before."""
        self.flush()
        self._begin()
        return self._raw

    def find(self, session: str) -> Head | None:
        """The session's head, None where there is no such session."""
        return self._heads.get(session)

    def head(self, session: str) -> Head:
        """The session's head. Raises `UnknownSession`."""
        head = self._heads.get(session)
        if head is None:
            raise UnknownSession(f"there is no session {session}")
        return head

    def stored(self, head: Head, batch: str) -> int | None:
        """The number of the last event of a batch that is in the session already."""
        if hash(batch) not in head.batches:
            return None
        number: int | None
        self.flush()
        (number,) = self._raw.execute(
            "SELECT max(number) FROM events WHERE session = ? AND batch = ?", (head.id, batch)
        ).fetchone()
        return number

    def check_runs(self, batch: Batch) -> None:
        """Refuses a batch that creates a run which exists."""
        if not batch.runs:
            return
        must_be_of(batch)
        for row in created_by(batch):
            if row.run in self._known:
                raise duplicate_run(row.run)

    def create(self, session: str, tenant: str) -> Head:
        """Makes the session."""
        return self._heads.add(session, tenant, self.now)

    def changed(self, head: Head) -> None:
        """The session's lease has changed, or the session is new."""
        self._sessions[head.id] = head

    def add(self, head: Head, key: str, records: Sequence[bytes]) -> int:
        """Appends records; the number of the last."""
        if not records:
            return head.last
        for number, record in enumerate(records, head.last + 1):
            data: bytes | None = record
            digest = None
            if len(record) > BLOB_BYTES:
                data, digest = None, self.keep(record)
            self._events.append((head.id, number, key, self.now, data, digest))
        self._heads.grew(head, key, len(records), self.now)
        return head.last

    def put_runs(self, head: Head, rows: Iterable[RunRow]) -> None:
        """Writes rows of the index."""
        for row in rows:
            self._known.add(row.run)
            self._runs.append(
                (row.run, head.id, row.tenant, row.job, row.state, row.open, row.after, row.created, row.head)
            )

    def keep(self, data: bytes, *, put: bool = False) -> str:
        """Keeps a blob, which somebody `put` or which is a record of the log; its digest."""
        digest = hashlib.sha256(data).hexdigest()
        self._blobs.append((digest, data, self.now, put))
        return digest

    def forget(self, sessions: Iterable[str]) -> None:
        """These sessions are there no more."""
        self._heads.remove(sessions)

    def flush(self) -> None:
        """Writes what was gathered."""
        sessions = [
            (head.id, head.name, head.tenant, head.generation, head.holder, head.created)
            for head in self._sessions.values()
        ]
        try:
            for statement, rows in (
                (_SESSIONS, sessions),
                (_BLOBS, self._blobs),
                (_EVENTS, self._events),
                (_RUNS, self._runs),
            ):
                if rows:
                    self._begin()
                    insert(self._raw, statement, rows)
        except Exception as error:
            raise FlushFailed(error) from error
        self._sessions.clear()
        self._blobs.clear()
        self._events.clear()
        self._runs.clear()

    def commit(self) -> None:
        """Makes all of it durable."""
        self.flush()
        if self._raw.in_transaction:
            try:
                self._raw.execute("COMMIT")
            except sqlite3.Error as error:
                raise FlushFailed(error) from error

    def abandon(self) -> None:
        """Undoes all of it."""
        self._heads.forget()
        # Without room on the disk SQLite has rolled back by itself.
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def _begin(self) -> None:
        if not self._raw.in_transaction:
            self._raw.execute("BEGIN IMMEDIATE")
