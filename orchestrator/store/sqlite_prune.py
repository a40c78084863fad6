"""Removing what nobody has touched for long from the store in SQLite.

What is to go is looked for by the reader and removed by the writer, a hundred sessions at a time, so that nobody's
append waits long. The file does not shrink; what becomes free in it is used again.
"""

import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol, TypeVar

import msgspec

from orchestrator.store.base import Pruned
from orchestrator.store.rules import Executors
from orchestrator.store.sqlite_group import Group
from orchestrator.store.sqlite_ledger import prune_calls

T = TypeVar("T")

AT_ONCE: Final = 100
"""Sessions that are removed in one move."""

_ROWS: Final = 500
"""Events that are searched in one query."""

_DOOMED: Final = """
SELECT s.id, s.name, s.holder FROM sessions AS s
WHERE coalesce((SELECT at FROM events WHERE session = s.id ORDER BY number DESC LIMIT 1), s.created) < :before
  AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND open)
"""

_LISTED: Final = "IN (SELECT value FROM json_each(:ids))"

_UNUSED: Final = "kept < :before AND NOT EXISTS (SELECT 1 FROM events WHERE blob = digest)"

_HEX: Final = re.compile(rb"[0-9a-f]{64,}")


class Threads(Protocol):
    """The store, as pruning needs it."""

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T: ...

    def move(self, move: Callable[[Group], T]) -> Awaitable[T]: ...


async def prune(store: Threads, executors: Executors, before: float, gone: Callable[[str], object]) -> Pruned:
    """Removes sessions, runs, blobs and calls; tells `gone` of each session that is removed."""
    found = await store.query(lambda connection: connection.execute(_DOOMED, {"before": before}).fetchall())
    sessions = runs = events = 0
    for part in _parts([number for number, _, _ in found], AT_ONCE):
        names, its_runs, its_events = await store.move(_remove(executors, before, part))
        sessions += len(names)
        runs += its_runs
        events += its_events
        for name in names:
            gone(name)
    await store.move(
        lambda group: group.connection.execute(f"DELETE FROM blobs WHERE NOT put AND {_UNUSED}", {"before": before})
    )
    await _remove_named(store, before)
    calls = await store.move(lambda group: prune_calls(group.connection, before))
    return Pruned(sessions, runs, events, calls)


def _remove(executors: Executors, before: float, ids: list[int]) -> Callable[[Group], tuple[list[str], int, int]]:
    """Removes those of these sessions that are still to go: somebody may have touched one since it was looked for."""

    def move(group: Group) -> tuple[list[str], int, int]:
        connection = group.connection
        listed = {"before": before, "ids": msgspec.json.encode(ids).decode()}
        rows = connection.execute(f"{_DOOMED} AND s.id {_LISTED}", listed).fetchall()
        rows = [row for row in rows if not (row[2] and executors.alive(row[2], group.now))]
        going = {"ids": msgspec.json.encode([number for number, _, _ in rows]).decode()}
        events = connection.execute(f"DELETE FROM events WHERE session {_LISTED}", going).rowcount
        runs = connection.execute(f"DELETE FROM runs WHERE session {_LISTED}", going).rowcount
        connection.execute(f"DELETE FROM sessions WHERE id {_LISTED}", going)
        names = [name for _, name, _ in rows]
        group.forget(names)
        return names, runs, events

    return move


async def _remove_named(store: Threads, before: float) -> None:
    """Removes blobs that somebody put and that no event names any more.

    Who names one again puts it again first, which makes it young; so what was old and unnamed can go.
    """
    found = await store.query(
        lambda connection: connection.execute(
            f"SELECT digest FROM blobs WHERE put AND {_UNUSED}", {"before": before}
        ).fetchall()
    )
    unnamed = {digest for (digest,) in found}
    at = 0
    while unnamed:
        last, named = await store.query(_names(at))
        if last is None:
            break
        unnamed -= named
        at = last
    for part in _parts(sorted(unnamed), AT_ONCE):
        listed = {"before": before, "ids": msgspec.json.encode(part).decode()}
        await store.move(_delete_blobs(listed))


def _delete_blobs(listed: dict[str, Any]) -> Callable[[Group], object]:
    return lambda group: group.connection.execute(f"DELETE FROM blobs WHERE {_UNUSED} AND digest {_LISTED}", listed)


def _names(at: int) -> Callable[[sqlite3.Connection], tuple[int | None, set[str]]]:
    def work(connection: sqlite3.Connection) -> tuple[int | None, set[str]]:
        rows = connection.execute(
            "SELECT e.rowid, coalesce(e.data, (SELECT b.data FROM blobs AS b WHERE b.digest = e.blob))"
            " FROM events AS e WHERE e.rowid > ? ORDER BY e.rowid LIMIT ?",
            (at, _ROWS),
        ).fetchall()
        return (rows[-1][0] if rows else None), {digest for _, data in rows for digest in _digests(data)}

    return work


def _digests(data: bytes) -> Iterator[str]:
    for found in _HEX.findall(data):
        for at in range(len(found) - 63):
            yield found[at : at + 64].decode()


def _parts(items: list[T], size: int) -> Iterator[list[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
