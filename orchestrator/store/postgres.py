"""The door to the store in PostgreSQL: what a daemon that does not use it need not have installed stays behind it."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from orchestrator.store.base import LEASE_SECONDS
from orchestrator.store.errors import StoreUnusable

if TYPE_CHECKING:
    from orchestrator.store.postgres_store import PostgresStore

SCHEMA: Final = "headrace"


@asynccontextmanager
async def open_postgres(
    dsn: str, *, holder: str, schema: str = SCHEMA, lease: float = LEASE_SECONDS, patience: float = LEASE_SECONDS
) -> AsyncGenerator["PostgresStore", None]:
    """The store in this database, for as long as the block lasts; makes its tables where there are none.

    `holder` is this process as an executor and as a candidate for the daemon's lease, which lasts `lease` seconds.
    The server may be away for `patience` seconds before those who wait for it are told. Raises `StoreUnusable` where
    there is no such database, and where the client library is missing.
    """
    if "psycopg" not in sys.modules and find_spec("psycopg") is None:
        raise StoreUnusable(
            "the store in PostgreSQL needs psycopg, which is not installed: pip install 'headrace[postgres]'"
        )
    # here, since it imports psycopg
    from orchestrator.store.postgres_store import PostgresStore

    store = await PostgresStore.open(dsn, holder=holder, schema=schema, lease=lease, patience=patience)
    try:
        yield store
    finally:
        await store.aclose()
