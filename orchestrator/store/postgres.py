"""The store in PostgreSQL: the names that others build on."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class PostgresStore:
    """A store in PostgreSQL. Functions given to it get a `psycopg.Connection` (rows are tuples) inside a transaction.

    They may be run again, whole, after a lost connection: what they write must come out the same then.
    """

    lost: trio.Event

    async def submit(self, work: Callable[[Any], T]) -> T:
        """Runs `work(connection)` in the writer's next group; returns when that is durable."""
        raise NotImplementedError

    def post(self, work: Callable[[Any], object], failed: Callable[[Exception], object] | None = None) -> None:
        """Hands `work` over for the writer's next group, in order, without waiting.

        `failed` is called, on trio's thread, where it could not be done.
        """
        raise NotImplementedError

    async def query(self, work: Callable[[Any], T]) -> T:
        """Runs `work(connection)` on a reader's connection."""
        raise NotImplementedError

    async def lead(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Waits until this process is the active daemon, then `started()`; keeps the lease until `lost` is set."""
        raise NotImplementedError


@asynccontextmanager
async def open_postgres(dsn: str, *, holder: str) -> AsyncGenerator[PostgresStore, None]:
    """Opens the store."""
    raise NotImplementedError
    yield PostgresStore()
