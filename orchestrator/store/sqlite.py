"""The store in one SQLite file: the names that others build on."""

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from orchestrator.store.memory import MemoryStore

T = TypeVar("T")


class SqliteStore(MemoryStore):
    """Implements `Store`. What it is given to run gets a connection inside a transaction."""

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in the writer's next group; returns when that is durable.

        It may be run again, whole: where another one of the group failed, the group is rolled back and repeated.
        """
        raise NotImplementedError

    def post(
        self, work: Callable[[sqlite3.Connection], object], failed: Callable[[Exception], object] | None = None
    ) -> None:
        """Like `submit`, without waiting. `failed` is called on the loop's thread where it could not be done."""
        raise NotImplementedError

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on the reader's connection, which cannot write."""
        raise NotImplementedError


@asynccontextmanager
async def open_sqlite(
    path: Path, *, wall: Callable[[], float] = time.time, max_pages: int | None = None
) -> AsyncGenerator[SqliteStore, None]:
    """Opens the store."""
    yield SqliteStore(wall)
