"""The stores that the conformance suite runs over, each opened for one test, and small things to put into them."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from orchestrator.store.base import Batch, RunRow, SessionView, Store
from orchestrator.store.memory import MemoryStore
from orchestrator.store.sqlite import open_sqlite
from tests.store.postgres_server import shared_server


@asynccontextmanager
async def memory(_: Path) -> AsyncGenerator[Store, None]:
    store = MemoryStore()
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncGenerator[Store, None]:
    async with open_sqlite(folder / "store.db") as store:
        yield store


@asynccontextmanager
async def postgres(_: Path) -> AsyncGenerator[Store, None]:
    from orchestrator.store.postgres import open_postgres

    dsn = shared_server().dsn
    async with open_postgres(dsn, holder="suite", schema=f"suite_{uuid.uuid4().hex}") as store:
        yield store


Opener = Callable[[Path], AbstractAsyncContextManager[Store]]

STORES: dict[str, Opener] = {"memory": memory, "sqlite": sqlite, "postgres": postgres}

ME = "executor-1"
OTHER = "executor-2"


def batch(session: str, after: int, *records: str, id: str = "", runs: tuple[RunRow, ...] = ()) -> Batch:
    """Records behind a number; an id of its own where none is given."""
    data = tuple(record.encode() for record in records)
    return Batch(session=session, id=id or uuid.uuid4().hex, after=after, records=data, runs=runs)


def row(run: str, session: str = "", **fields: object) -> RunRow:
    """A run's row in the index."""
    told: dict[str, object] = {
        "tenant": "blue",
        "job": "",
        "state": "running",
        "open": True,
        "after": 0,
        "created": 1_700_000_000.123_456_7,
        "head": b'{"a":"\xc3\xa4"}',
    }
    return RunRow(run=run, session=session or run, **{**told, **fields})  # type: ignore[arg-type]


async def begin(store: Store, session: str, *records: str, holder: str = ME, run: bool = False) -> SessionView:
    """Makes a session for a living executor."""
    await store.beat(holder)
    rows = (row(session),) if run else ()
    return await store.take(session, holder, tenant="blue", batch=batch(session, 0, *(records or ("a",)), runs=rows))


async def texts(store: Store, session: str, after: int = 0) -> list[str]:
    """What a session's log holds, page by page."""
    found: list[str] = []
    while records := await store.read(session, after):
        assert [record.number for record in records] == list(range(after + 1, after + 1 + len(records)))
        after = records[-1].number
        found += [record.data.decode() for record in records]
    return found
