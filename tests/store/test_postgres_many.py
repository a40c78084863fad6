"""Several stores on one database, as several processes have them: nothing is missed, doubled or lost between them."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio

from orchestrator.store.base import Batch, RunRow
from orchestrator.store.errors import Conflict, DuplicateSession, Fenced, SessionBusy, UnknownSession
from orchestrator.store.postgres import open_postgres
from orchestrator.store.postgres_group import NOTICE_BYTES, notice, noticed
from orchestrator.store.postgres_store import PostgresStore
from tests.store.postgres_server import fresh_schema, shared_server


@pytest.fixture
def schema() -> Iterator[str]:
    with fresh_schema() as name:
        yield name


@asynccontextmanager
async def some(schema: str, number: int) -> AsyncIterator[list[PostgresStore]]:
    """Stores whose holders are `0`, `1` and so on, all alive."""
    dsn = shared_server().dsn
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(open_postgres(dsn, holder=str(n), schema=schema)) for n in range(number)
        ]
        for store in stores:
            await store.beat(store.holder)
        yield stores


def row_of(run: str, session: str) -> RunRow:
    return RunRow(
        run=run, session=session, tenant="t", job="", state="queued", open=True, after=0, created=0.0, head=b""
    )


async def test_of_many_that_make_one_session_one_does(schema: str) -> None:
    """Processes that make the same session at the same time end with one maker; the others are told that it is busy."""
    async with some(schema, 4) as stores:
        won: Counter[str] = Counter()

        async def make(store: PostgresStore, session: str) -> None:
            batch = Batch(session=session, id=store.holder, after=0, records=(store.holder.encode(),))
            try:
                await store.take(session, store.holder, batch=batch)
                won[session] += 1
            except SessionBusy:
                pass

        async with trio.open_nursery() as nursery:
            for n in range(50):
                for store in stores:
                    nursery.start_soon(make, store, f"s{n}")
        assert won == {f"s{n}": 1 for n in range(50)}


async def test_of_many_that_make_one_run_in_their_sessions_one_does(schema: str) -> None:
    """A run's name is given once, also to processes that ask at the same time for different sessions."""
    async with some(schema, 4) as stores:
        won: Counter[str] = Counter()

        async def make(store: PostgresStore, run: str) -> None:
            session = f"{run} of {store.holder}"
            batch = Batch(session=session, id="a", after=0, records=(b"a",), runs=(row_of(run, session),))
            try:
                await store.take(session, store.holder, batch=batch)
                won[run] += 1
            except DuplicateSession:
                pass

        async with trio.open_nursery() as nursery:
            for n in range(50):
                for store in stores:
                    nursery.start_soon(make, store, f"r{n}")
        assert won == {f"r{n}": 1 for n in range(50)}


async def test_what_others_append_reaches_an_executor_as_a_conflict(schema: str) -> None:
    """An executor and senders in other processes that append at the same time leave one log with everything, once."""
    async with some(schema, 3) as (executor, *others):
        view = await executor.take("s", "0", batch=Batch(session="s", id="made", after=0, records=(b"made",)))

        async def send(store: PostgresStore) -> None:
            for n in range(25):
                key = f"{store.holder}/{n}"
                await store.append_external("s", key, (key.encode(),))
                await store.append_external("s", key, (key.encode(),))

        async def execute() -> None:
            last, n, conflicts = view.last, 0, 0
            while n < 50:
                batch = Batch(session="s", id=f"own/{n}", after=last, records=(f"own/{n}".encode(),))
                try:
                    last, n = await executor.append(batch, view.generation), n + 1
                except Conflict as conflict:
                    last, conflicts = conflict.last, conflicts + 1

        async with trio.open_nursery() as nursery:
            for store in others:
                nursery.start_soon(send, store)
            nursery.start_soon(execute)
        records = [record.data for record in await executor.read("s")]
        expected = [b"made", *(f"own/{n}".encode() for n in range(50))]
        expected += [f"{store.holder}/{n}".encode() for store in others for n in range(25)]
        assert Counter(records) == Counter(expected)
        assert [data for data in records if data.startswith(b"own")] == expected[1:51]


async def test_watchers_in_other_processes_miss_nothing(schema: str) -> None:
    """A watcher sees what another process appends, in order and once, and hears of the session's removal."""
    async with some(schema, 2) as (writer, reader), trio.open_nursery() as nursery:
        view = await writer.take("s", "0", batch=Batch(session="s", id="0", after=0, records=(b"0",)))
        seen: list[int] = []
        gone = trio.Event()

        async def watch() -> None:
            try:
                async for record in reader.watch("s"):
                    seen.append(record.number)  # noqa: PERF401  as it comes
            except UnknownSession:
                gone.set()

        nursery.start_soon(watch)
        for n in range(1, 200):
            await writer.append(Batch(session="s", id=str(n), after=n, records=(b"x",)), view.generation)
        with trio.fail_after(10):
            while len(seen) < 200:  # noqa: ASYNC110  what is waited for comes over the wire
                await trio.sleep(0.001)
            await writer.release("s", view.generation)
            assert (await writer.prune(2e10)).sessions == 1
            await gone.wait()
        assert seen == list(range(1, 201))


async def test_an_executor_whose_session_was_taken_is_fenced(schema: str) -> None:
    """A session whose executor is no longer alive is taken by another process, and the first one appends nothing."""
    async with some(schema, 2) as (one, two):
        first = await one.take("s", "0", batch=Batch(session="s", id="0", after=0, records=(b"0",)))
        with pytest.raises(SessionBusy):
            await two.take("s", "1")
        await one.beat("0", 0.0)
        second = await two.take("s", "1")
        assert second.generation == first.generation + 1
        with pytest.raises(Fenced):
            await one.append(Batch(session="s", id="a", after=1, records=(b"a",)), first.generation)
        assert await two.append(Batch(session="s", id="b", after=1, records=(b"b",)), second.generation) == 2


async def test_stores_of_two_schemas_do_not_meet(schema: str) -> None:
    """Two stores in one database know nothing of each other."""
    with fresh_schema() as other:
        async with some(schema, 1) as (one,), some(other, 1) as (two,):
            await one.take("s", "0", batch=Batch(session="s", id="0", after=0, records=(b"0",)))
            with pytest.raises(UnknownSession):
                await two.session("s")


async def test_pruning_goes_on_to_the_end(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More sessions than one portion are removed, and what others append meanwhile goes in between."""
    monkeypatch.setattr("orchestrator.store.postgres_upkeep.PORTION", 3)
    async with some(schema, 1) as (store,):
        for n in range(10):
            batch = Batch(session=f"s{n}", id="a", after=0, records=(b"a", b"b"))
            view = await store.take(f"s{n}", "0", batch=batch)
            if n < 9:
                await store.release(f"s{n}", view.generation)
        pruned = await store.prune(2e10)
        assert (pruned.sessions, pruned.events) == (9, 18)
        assert [view.session for view in await store.sessions()] == ["s9"]


async def test_a_cancelled_append_is_whole_or_not_there(schema: str) -> None:
    """An executor that is cancelled while it appends leaves its batches whole, and nobody else's disturbed."""
    async with some(schema, 1) as (store,):
        view = await store.take("s", "0", batch=Batch(session="s", id="0", after=0, records=(b"0",)))
        for n in range(40):
            last = (await store.session("s")).last
            batch = Batch(session="s", id=str(n), after=last, records=(b"a", b"b"))
            with trio.move_on_after(n * 0.0002), suppress(Conflict):  # one left before may have come in between
                await store.append(batch, view.generation)
        await store.beat("0")
        records = [record.data for record in await store.read("s", 1)]
        assert records == [b"a", b"b"] * (len(records) // 2)


async def test_a_cancelled_read_leaves_at_once_and_its_query_ends(schema: str) -> None:
    """A reader that is cancelled is gone at once, its query ends at the server, and other reads are not disturbed."""
    async with some(schema, 1) as (store,):
        begun = trio.current_time()
        for _ in range(6):
            with trio.move_on_after(0.02) as scope:
                await store.query(lambda link: link.execute("SELECT pg_sleep(60)"))
            assert scope.cancelled_caught
        assert trio.current_time() - begun < 5
        with trio.fail_after(5):
            assert await store.states() == {}
            while await store.query(_sleepers):  # noqa: ASYNC110  what is waited for happens at the server
                await trio.sleep(0.005)


def test_a_notice_names_its_sessions_or_all() -> None:
    """A notice names what has grown as long as the database takes it, and stands for everything where it does not."""
    assert noticed(notice({"a", "ü"})) == ["a", "ü"]
    many = {f"session {n}" for n in range(NOTICE_BYTES)}
    assert notice(many) == ""
    assert noticed("") is None


def _sleepers(link: object) -> int:
    question = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%' AND state = 'active'"
    return int(link.execute(question).fetchone()[0])  # type: ignore[attr-defined]
