"""The store in PostgreSQL while its server is away, comes back, or takes a commit's answer with it."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress

import psycopg
import pytest
import trio
import trio.testing

from orchestrator.store import postgres_writer
from orchestrator.store.base import Batch
from orchestrator.store.errors import StoreAway, StoreError
from orchestrator.store.postgres import open_postgres
from orchestrator.store.postgres_store import PostgresStore
from tests.store.postgres_server import Server, fresh_schema, shared_server, throwaway_server


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    with throwaway_server() as one:
        yield one


@pytest.fixture
def server(mortal: Server) -> Server:
    """A server that a test may kill."""
    if not mortal.up:
        mortal.start()
    return mortal


@pytest.fixture
def schema() -> Iterator[str]:
    with fresh_schema() as name:
        yield name


@asynccontextmanager
async def opened(dsn: str, schema: str, patience: float = 30.0) -> AsyncIterator[PostgresStore]:
    async with open_postgres(dsn, holder="one", schema=schema, patience=patience) as store:
        await store.beat("one")
        yield store


async def begin(store: PostgresStore, session: str) -> int:
    """A new session with one record; its generation."""
    return (await store.take(session, "one", batch=Batch(session=session, id="0", after=0, records=(b"0",)))).generation


class Appender:
    """Appends one record after the other to a session of its own, and knows which were acknowledged."""

    def __init__(self, store: PostgresStore, session: str) -> None:
        self._store = store
        self.session = session
        self.acknowledged = 0

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        generation = await begin(self._store, self.session)
        task_status.started()
        for number in itertools.count(1):
            batch = Batch(session=self.session, id=str(number), after=number, records=(str(number).encode(),))
            assert await self._store.append(batch, generation) == number + 1
            self.acknowledged = number


async def test_a_server_killed_in_the_middle_of_appends_loses_nothing(server: Server, schema: str) -> None:
    """Killed and started again under twenty appending executors, the server has all that was acknowledged, once and in
    order; the store reconnects by itself, and its watchers go on.
    """
    async with opened(server.dsn, schema) as store, trio.open_nursery() as nursery:
        appenders = [Appender(store, f"s{n}") for n in range(20)]
        watched: list[bytes] = []
        for appender in appenders:
            await nursery.start(appender.run)
        nursery.start_soon(_watch, store, "s0", watched)
        for _ in range(2):
            await _until_each(appenders, 20)
            await trio.to_thread.run_sync(server.kill)
            await trio.to_thread.run_sync(server.start)
        await _until_each(appenders, 20)
        nursery.cancel_scope.cancel()
    async with opened(server.dsn, schema) as store:
        for appender in appenders:
            records = await store.read(appender.session)
            assert [record.data for record in records] == [str(n).encode() for n in range(len(records))]
            assert len(records) > appender.acknowledged
            assert [record.number for record in records] == list(range(1, len(records) + 1))
        assert len(watched) >= 40
        assert watched == [str(n).encode() for n in range(len(watched))]


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the connection breaks after a commit and before its answer, the group is sent again and nothing doubles."""
    real, broken = postgres_writer.commit, 0

    def commit_and_break(link: psycopg.Connection, *rest: object) -> object:
        nonlocal broken
        answer = real(link, *rest)
        if broken < 1:
            broken += 1
            link.close()
            raise psycopg.OperationalError("the answer got lost")
        return answer

    async with opened(shared_server().dsn, schema) as store:
        generation = await begin(store, "s")
        monkeypatch.setattr(postgres_writer, "commit", commit_and_break)
        batch = Batch(session="s", id="a", after=1, records=(b"a", b"b"))
        assert await store.append(batch, generation) == 3
        broken = 0
        assert await store.append_external("s", "key", (b"c",)) == 4
        broken = 0
        assert (await store.take("s", "one")).holder == "one"
        assert [record.data for record in await store.read("s")] == [b"0", b"a", b"b", b"c"]


async def test_one_whose_connections_are_ended_by_the_server_goes_on(schema: str) -> None:
    """An administrator who ends all connections disturbs neither appends nor reads nor watchers."""
    async with opened(shared_server().dsn, schema) as store, trio.open_nursery() as nursery:
        generation = await begin(store, "s")
        watched: list[bytes] = []
        nursery.start_soon(_watch, store, "s", watched)
        for number in range(1, 6):
            await trio.to_thread.run_sync(_end_all, schema)
            batch = Batch(session="s", id=str(number), after=number, records=(str(number).encode(),))
            await store.append(batch, generation)
            await trio.to_thread.run_sync(_end_all, schema)
            assert len(await store.read("s")) == number + 1
        while len(watched) < 6:  # noqa: ASYNC110  what is waited for is another store's news
            await trio.sleep(0.001)
        assert watched == [str(n).encode() for n in range(6)]
        nursery.cancel_scope.cancel()


async def test_a_server_that_stays_away_is_an_error_in_time(server: Server, schema: str) -> None:
    """Appends and reads wait for a server as long as they are told to, then say that it cannot be reached; when it is
    back, so is the store.
    """
    async with opened(server.dsn, schema, patience=0.3) as store:
        generation = await begin(store, "s")
        await trio.to_thread.run_sync(server.kill)
        batch = Batch(session="s", id="a", after=1, records=(b"a",))
        with pytest.raises(StoreAway, match="nobody knows what became of this"):
            await store.append(batch, generation)
        with pytest.raises(StoreError, match="the database cannot be reached"):
            await store.read("s")
        await trio.to_thread.run_sync(server.start)
        assert await store.append(batch, generation) == 2


async def test_closing_does_not_wait_for_a_server_that_is_away(server: Server, schema: str) -> None:
    """A store can be closed while its server is away; what waited for it fails."""
    errors: list[StoreError] = []

    async def append(store: PostgresStore, *, task_status: trio.TaskStatus[None]) -> None:
        generation = await begin(store, "s")
        await trio.to_thread.run_sync(server.kill)
        task_status.started()
        try:
            await store.append(Batch(session="s", id="a", after=1, records=(b"a",)), generation)
        except StoreError as error:
            errors.append(error)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, opened(server.dsn, schema, patience=3600) as store:
            await nursery.start(append, store)
            await trio.testing.wait_all_tasks_blocked()
    assert [error.kind for error in errors] == ["store_away"]


async def test_closing_does_not_wait_for_a_server_that_hangs(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store can be closed while its server takes connections and answers nothing; what waited for it fails."""
    monkeypatch.setattr("orchestrator.store.postgres_store.CLOSE_SECONDS", 0.1)
    errors: list[str] = []

    async def append(store: PostgresStore, generation: int) -> None:
        try:
            await store.append(Batch(session="s", id="a", after=1, records=(b"a",)), generation)
        except StoreError as error:
            errors.append(error.kind)

    async def watch(store: PostgresStore) -> None:
        with suppress(StoreError):
            async for _ in store.watch("s"):
                pass

    with trio.fail_after(20):
        try:
            async with trio.open_nursery() as nursery, opened(server.dsn, schema) as store:
                generation = await begin(store, "s")
                server.pause()
                nursery.start_soon(append, store, generation)
                nursery.start_soon(watch, store)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.deadline = trio.current_time() + 10
        finally:
            server.go_on()
    assert errors == ["store_away"]


async def test_a_process_that_hangs_in_a_transaction_is_ended_by_the_server(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of a process that stands still in mid-transaction block others for a bounded time, and it does no harm."""
    monkeypatch.setattr("orchestrator.store.postgres_link.IDLE_SECONDS", 1)
    async with opened(shared_server().dsn, schema) as store:
        generation = await begin(store, "s")
        with closing(store._address.connect()) as hung:
            hung.execute("BEGIN")
            hung.execute("SELECT 1 FROM sessions FOR UPDATE")
            with trio.fail_after(10):
                await store.append(Batch(session="s", id="a", after=1, records=(b"a",)), generation)
            with pytest.raises(psycopg.Error, match="idle-in-transaction"):
                hung.execute("UPDATE sessions SET last = 0")
        assert (await store.session("s")).last == 2


async def _until_each(appenders: list[Appender], more: int) -> None:
    """Until each of them has so many more acknowledged."""
    goals = [appender.acknowledged + more for appender in appenders]
    with trio.fail_after(30):
        while any(one.acknowledged < goal for one, goal in zip(appenders, goals, strict=True)):  # noqa: ASYNC110
            await trio.sleep(0.002)


async def _watch(store: PostgresStore, session: str, seen: list[bytes]) -> None:
    async for record in store.watch(session):
        seen.append(record.data)  # noqa: PERF401  as it comes


def _end_all(schema: str) -> None:
    with psycopg.connect(shared_server().dsn, autocommit=True) as link:
        link.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace'"
            " AND pid <> pg_backend_pid()"
        )
