"""Where each session's log ends and who holds it, kept in memory by the writer.

So the checks of an append are look-ups in a dict. The cache is as the transaction in progress has left the sessions;
where that is rolled back, the cache is emptied, and what is needed is read again.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from orchestrator.store.base import SessionView
from orchestrator.store.sqlite_times import seconds, ticks

ROOM: Final = 200_000
"""How many batches and sessions are remembered; above it only the sessions just used stay."""


class Head(Struct):
    """One session. `batches` holds the hash of each batch's id: an id that is not in it is certainly new."""

    id: int
    name: str
    tenant: str
    generation: int
    holder: str
    created: float
    last: int
    updated: float
    batches: set[int]

    def view(self) -> SessionView:
        """What is shown of it."""
        return SessionView(
            session=self.name,
            tenant=self.tenant,
            last=self.last,
            generation=self.generation,
            holder=self.holder,
            created=self.created,
            updated=self.updated,
        )


# One row for all of them, since every row that SQLite yields hands the interpreter's lock over, and a busy event loop
# gives it back after 5 ms.
_LOAD: Final = f"""
SELECT json_group_array(json_array(
    s.id, s.name, s.tenant, s.generation, s.holder, {ticks("s.created")},
    coalesce((SELECT max(number) FROM events WHERE session = s.id), 0),
    {ticks("coalesce((SELECT at FROM events WHERE session = s.id ORDER BY number DESC LIMIT 1), s.created)")},
    (SELECT json_group_array(DISTINCT batch) FROM events WHERE session = s.id)
)) FROM json_each(?) AS wanted JOIN sessions AS s ON s.name = wanted.value
"""

_rows: Final = msgspec.json.Decoder(list[tuple[int, str, str, int, str, int, int, int, list[str]]])


class Heads:
    """The cache. For the writer's thread only."""

    __slots__ = ("_heads", "_next", "_weight")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._heads: dict[str, Head | None] = {}
        self._weight = 0
        (greatest,) = connection.execute("SELECT coalesce(max(id), 0) FROM sessions").fetchone()
        self._next = greatest + 1

    def load(self, connection: sqlite3.Connection, names: Iterable[str]) -> None:
        """Reads those that are not known yet."""
        wanted = list({name for name in names if name not in self._heads})
        if not wanted:
            return
        self._heads.update(dict.fromkeys(wanted))
        (found,) = connection.execute(_LOAD, (msgspec.json.encode(wanted).decode(),)).fetchone()
        for number, name, tenant, generation, holder, created, last, updated, batches in _rows.decode(found):
            known = {hash(batch) for batch in batches}
            self._heads[name] = Head(
                number, name, tenant, generation, holder, seconds(created), last, seconds(updated), known
            )
            self._weight += len(batches)
        self._weight += len(wanted)

    def get(self, name: str) -> Head | None:
        """The head; it has to be loaded before."""
        return self._heads[name]

    def add(self, name: str, tenant: str, now: float) -> Head:
        """The head of a session that is made now."""
        head = Head(self._next, name, tenant, 0, "", now, 0, now, set())
        self._next += 1
        self._heads[name] = head
        return head

    def grew(self, head: Head, batch: str, records: int, now: float) -> None:
        """The session has a batch more."""
        head.last += records
        head.updated = now
        head.batches.add(hash(batch))
        self._weight += 1

    def remove(self, names: Iterable[str]) -> None:
        """These sessions are there no more."""
        self._heads.update(dict.fromkeys(names))

    def forget(self) -> None:
        """Empties the cache."""
        self._heads.clear()
        self._weight = 0

    def trim(self, used: Iterable[str]) -> None:
        """Keeps it from growing without end: above `ROOM` only those just used stay. Not inside a transaction."""
        if self._weight > ROOM:
            self._heads = {name: self._heads[name] for name in used if name in self._heads}
            self._weight = sum(1 if head is None else 1 + len(head.batches) for head in self._heads.values())
