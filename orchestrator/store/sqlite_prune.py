"""Removing what nobody has touched for long from the store in SQLite.

The file does not shrink; what becomes free in it is used again.
"""

import sqlite3
from collections.abc import Callable
from typing import Final

from orchestrator.store.base import Pruned
from orchestrator.store.rules import Executors
from orchestrator.store.sqlite_group import Group
from orchestrator.store.sqlite_ledger import prune_calls

_DOOMED: Final = """
INSERT INTO temp.doomed SELECT s.id, s.name, s.holder FROM sessions AS s
WHERE coalesce((SELECT at FROM events WHERE session = s.id ORDER BY number DESC LIMIT 1), s.created) < ?
  AND NOT EXISTS (SELECT 1 FROM runs WHERE session = s.id AND open)
"""

_LONELY: Final = """
DELETE FROM blobs WHERE kept < :before
  AND NOT EXISTS (SELECT 1 FROM events WHERE blob = digest)
  AND NOT EXISTS (SELECT 1 FROM events WHERE instr(data, CAST(digest AS BLOB)))
  AND NOT EXISTS (SELECT 1 FROM events AS e JOIN blobs AS b ON b.digest = e.blob
                  WHERE e.blob IS NOT NULL AND instr(b.data, CAST(blobs.digest AS BLOB)))
"""
"""Blobs that no event is kept in, and that no event names."""


def prune(executors: Executors, before: float, pruned: list[str]) -> Callable[[Group], Pruned]:
    """Removes sessions, runs, blobs and calls; puts the sessions' names into `pruned`."""

    def move(group: Group) -> Pruned:
        connection = group.connection
        pruned[:] = _doom(connection, executors, before, group.now)
        events = connection.execute("DELETE FROM events WHERE session IN (SELECT id FROM temp.doomed)").rowcount
        runs = connection.execute("DELETE FROM runs WHERE session IN (SELECT id FROM temp.doomed)").rowcount
        connection.execute("DELETE FROM sessions WHERE id IN (SELECT id FROM temp.doomed)")
        connection.execute(_LONELY, {"before": before})
        calls = prune_calls(connection, before)
        group.forget(pruned)
        return Pruned(len(pruned), runs, events, calls)

    return move


def _doom(connection: sqlite3.Connection, executors: Executors, before: float, now: float) -> list[str]:
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS doomed (id INTEGER PRIMARY KEY, name TEXT, holder TEXT)")
    connection.execute("DELETE FROM temp.doomed")
    connection.execute(_DOOMED, (before,))
    found = connection.execute("SELECT DISTINCT holder FROM temp.doomed WHERE holder <> ''").fetchall()
    for (holder,) in found:
        if executors.alive(holder, now):
            connection.execute("DELETE FROM temp.doomed WHERE holder = ?", (holder,))
    return [name for (name,) in connection.execute("SELECT name FROM temp.doomed").fetchall()]
