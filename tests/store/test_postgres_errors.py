"""What goes wrong with a database is said in a sentence, to the one whom it concerns, and without the address."""

import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest
import trio

from orchestrator.store.base import Batch
from orchestrator.store.errors import StoreClosed, StoreError, StoreFull, StoreUnusable
from orchestrator.store.postgres import open_postgres
from orchestrator.store.postgres_schema import VERSION, Link
from orchestrator.store.postgres_store import PostgresStore
from tests.store.postgres_server import fresh_schema, shared_server

SECRET = "hunter2"


@pytest.fixture
def schema() -> Iterator[str]:
    with fresh_schema() as name:
        yield name


@asynccontextmanager
async def opened(schema: str) -> AsyncIterator[PostgresStore]:
    async with open_postgres(shared_server().dsn, holder="one", schema=schema) as store:
        await store.beat("one")
        yield store


async def refused(dsn: str, schema: str = "headrace") -> str:
    """Why the store cannot be opened."""
    with pytest.raises(StoreUnusable) as caught:
        async with open_postgres(dsn, holder="one", schema=schema):
            raise AssertionError
    return caught.value.message


async def test_a_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg the error says what to install."""
    monkeypatch.delitem(sys.modules, "psycopg")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("orchestrator.store.postgres.find_spec", lambda name: None)
    assert "pip install 'headrace[postgres]'" in await refused("postgresql://127.0.0.1/none")


@pytest.mark.parametrize(
    "dsn", [f"mysql://me:{SECRET}@host/name", f"password={SECRET} nonsense", "postgresql://[", "="]
)
async def test_an_address_that_is_none_is_refused_without_being_quoted(dsn: str) -> None:
    """What cannot be read as an address is refused, and the password in it is not repeated."""
    message = await refused(dsn)
    assert "postgresql://user:password@host:5432/name" in message
    assert SECRET not in message


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    """The error says which server could not be reached, and not with what password."""
    message = await refused(f"postgresql://me:{SECRET}@127.0.0.1:1/name")
    assert "127.0.0.1:1, database 'name'" in message
    assert "onnection refused" in message
    assert SECRET not in message


async def test_a_missing_database_is_named() -> None:
    """The error says that there is no such database."""
    assert 'database "nowhere" does not exist' in await refused(
        shared_server().dsn.removesuffix("/postgres") + "/nowhere"
    )


async def test_tables_of_a_later_version_are_refused(schema: str) -> None:
    """A store that a later release has written is left alone, and the error says what helps."""
    async with opened(schema) as store:
        await store.submit(lambda link: link.execute("UPDATE meta SET version = %s", [VERSION + 1]))
    message = await refused(shared_server().dsn, schema)
    assert f"of version {VERSION + 1}" in message
    assert "use the later release" in message


async def test_many_may_open_an_empty_database_at_once(schema: str) -> None:
    """Daemons that start together on an empty database make its tables once."""
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(_open_and_close, schema)


async def test_one_bad_batch_does_not_fail_its_group(schema: str) -> None:
    """A batch that the database cannot take fails alone; everything else of its group is kept."""
    async with opened(schema) as store:
        errors: dict[str, StoreError | UnicodeError | psycopg.Error] = {}

        async def make(session: str) -> None:
            try:
                await store.take(session, "one", batch=Batch(session=session, id="a", after=0, records=(b"a",)))
            except (StoreError, UnicodeError) as error:
                errors[session] = error

        await _block_writer(store)
        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(make, f"good {n}")
                if n % 70 == 0:
                    nursery.start_soon(make, f"bad \0 {n}")
        assert sorted(errors) == [f"bad \0 {n}" for n in (0, 140, 70)]
        assert all(isinstance(error, StoreError) for error in errors.values())
        assert len(await store.sessions(size=1000)) == 200


async def test_work_that_fails_leaves_nothing_of_itself(schema: str) -> None:
    """Work that raises after it has written is undone, and gets its own error; its neighbours are kept."""
    async with opened(schema) as store:

        def write(holder: str) -> None:
            def work(link: Link) -> None:
                link.execute("INSERT INTO executors VALUES (%s, clock_timestamp())", [holder])
                if holder == "bad":
                    raise ZeroDivisionError

            store.post(work, lambda error: failed.append((holder, error)))

        failed: list[tuple[str, Exception]] = []
        await _block_writer(store)
        for holder in ("good", "bad", "better"):
            write(holder)
        await store.beat("last")
        assert [(holder, type(error)) for holder, error in failed] == [("bad", ZeroDivisionError)]
        found = await store.query(lambda link: link.execute("SELECT holder FROM executors").fetchall())
        assert {row[0] for row in found} == {"good", "better", "last", "one"}


async def test_work_that_hides_an_error_is_not_taken_for_done(schema: str) -> None:
    """A transaction that the database takes back without an error of its own is an error, not a success."""

    def hide(link: Link) -> None:
        with suppress(psycopg.Error):
            link.execute("SELECT 1 / 0")

    async with opened(schema) as store:
        with pytest.raises(StoreError):
            await store.submit(hide)
        await store.beat("one")


async def test_a_full_disk_is_told_from_other_errors_and_passes(schema: str) -> None:
    """Where the database has no more room the error says so, for the whole group, and the store goes on afterwards."""

    def fill(link: Link) -> None:
        link.execute("DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$")

    async with opened(schema) as store:
        with pytest.raises(StoreFull, match="could not extend file"):
            await store.submit(fill)
        await store.take("s", "one", batch=Batch(session="s", id="a", after=0, records=(b"a",)))


async def test_a_closed_store_says_so(schema: str) -> None:
    """After its end a store refuses to read, write, watch and lead."""
    async with opened(schema) as store:
        pass
    with pytest.raises(StoreClosed):
        await store.beat("one")
    with pytest.raises(StoreClosed):
        await store.states()
    with pytest.raises(StoreClosed):
        await store.lead()
    with pytest.raises(StoreClosed):
        store.post(lambda link: None)
    await store.aclose()


async def _open_and_close(schema: str) -> None:
    async with opened(schema):
        pass


async def _block_writer(store: PostgresStore) -> None:
    """Holds the writer until what is handed over in this turn of the loop is a group together."""
    store.post(lambda link: link.execute("SELECT pg_sleep(0.05)"))
    await trio.lowlevel.checkpoint()
