"""The writer: moves come in one by one and become durable a group at a time, with one sync for all of them.

A move that is refused has changed nothing, and its group goes on without it. Where something fails after a change, the
group is rolled back and done again without the one that failed; where nobody can say which one that is (no room on the
disk shows when everything is written), it is done again in halves. So what can be kept is kept, each answer is its own,
and one bad batch fails nobody else's.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from orchestrator.store.desk import Work
from orchestrator.store.errors import StoreError, StoreLocked
from orchestrator.store.sqlite_errors import problem
from orchestrator.store.sqlite_group import FlushFailed, Group
from orchestrator.store.sqlite_heads import Heads


class Writer:
    """What the writing thread runs.

    Moves that are the store's `own` are taken at their word that whatever they raise as `StoreError` changed nothing. A
    file that another program has locked is waited for once by the whole group, which then fails as one.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, wall: Callable[[], float]) -> None:
        self._connection = connection
        self._path = path
        self._wall = wall
        self._heads = Heads(connection)

    def handle(self, works: list[Work]) -> None:
        """Does all of it, as many at once as can be."""
        todo = [works]
        while todo:
            todo += reversed(self._attempt(todo.pop()))

    def _attempt(self, works: list[Work]) -> list[list[Work]]:
        """Tries them in one transaction; what is left to be done, in order."""
        group = Group(self._connection, self._heads, self._wall())
        done = 0
        try:
            sessions = (work.session for work in works if work.session)
            group.load(sessions, (run for work in works for run in work.creates))
            for work in works:
                _do(work, group)
                done += 1
            group.commit()
            self._heads.trim(group.used)
        except FlushFailed as failed:
            return self._in_halves(works, self._undo(group, failed.error))
        except Exception as raised:
            return self._without(works, done, self._undo(group, raised))
        return []

    def _undo(self, group: Group, error: Exception) -> Exception:
        """Rolls back; the error as it is told."""
        try:
            group.abandon()
        except sqlite3.Error as worse:
            error = worse
        return problem(error, self._path) if isinstance(error, sqlite3.Error) else error

    def _in_halves(self, works: list[Work], error: Exception) -> list[list[Work]]:
        if len(works) == 1 or isinstance(error, StoreLocked):
            return _fail(works, error)
        middle = len(works) // 2
        return [works[:middle], works[middle:]]

    def _without(self, works: list[Work], at: int, error: Exception) -> list[list[Work]]:
        # Behind the last: nobody's own fault, but the file's.
        if at == len(works):
            return self._in_halves(works, error)
        if isinstance(error, StoreLocked):
            return _fail(works, error)
        _fail(works[at : at + 1], error)
        return [part for part in (works[:at], works[at + 1 :]) if part]


def _do(work: Work, group: Group) -> None:
    work.error = None
    try:
        work.value = work.move(group)
    except StoreError as error:
        if not work.own:
            raise
        work.error = error


def _fail(works: list[Work], error: Exception) -> list[list[Work]]:
    for work in works:
        work.error = error
    return []
