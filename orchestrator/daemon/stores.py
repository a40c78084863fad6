"""The daemon's store, opened as the configuration says."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from orchestrator.config.find import beside
from orchestrator.config.problems import ConfigError, Problem
from orchestrator.config.schema import Config
from orchestrator.config.store_table import DSN_VARIABLE
from orchestrator.store.base import Store
from orchestrator.store.memory import MemoryStore
from orchestrator.store.postgres import open_postgres
from orchestrator.store.sqlite import open_sqlite

FILE: Final = "headrace.db"


@asynccontextmanager
async def open_store(config: Config, folder: Path, holder: str) -> AsyncGenerator[Store, None]:
    """The store for as long as the block lasts. Raises `ConfigError` and `StoreError`."""
    match config.store.kind:
        case "memory":
            store = MemoryStore()
            try:
                yield store
            finally:
                await store.aclose()
        case "sqlite":
            async with open_sqlite(folder / FILE) as file:
                yield file
        case "postgres":
            async with open_postgres(dsn_of(config), holder=holder) as database:
                yield database


def dsn_of(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """The database's address, from the environment or a file. Raises `ConfigError`, which never quotes it."""
    table = config.store
    if table.dsn_file is not None:
        path = beside(config, table.dsn_file)
        try:
            return path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([Problem("store.dsn_file", f"{path} cannot be read: {error}")], config.source) from None
    variable = table.dsn_env or DSN_VARIABLE
    dsn = environ.get(variable, "").strip()
    if not dsn:
        raise ConfigError(
            [Problem("store.dsn_env", f"the environment variable {variable} holds no PostgreSQL address")],
            config.source,
        )
    return dsn
