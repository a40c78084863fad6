"""The reader: queries one after the other, each on what was committed when it began."""

import sqlite3
from pathlib import Path

from orchestrator.store.desk import Work
from orchestrator.store.sqlite_errors import problem


class Reader:
    """What the reading thread runs."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def handle(self, works: list[Work]) -> None:
        """Answers each."""
        for work in works:
            try:
                work.value = work.move(self._connection)
            except sqlite3.Error as error:
                work.error = problem(error, self._path)
            except Exception as error:
                work.error = error
