"""The store in SQLite when things go wrong: no room, a locked file, work that fails in the middle of a group."""

import sqlite3
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from orchestrator.store.base import Batch
from orchestrator.store.errors import StoreError, StoreFull, StoreLocked
from orchestrator.store.sqlite import SqliteStore, open_sqlite
from tests.store.stores import ME, batch, begin, row, texts

FUTURE = 4_000_000_000.0


async def fill(store: SqliteStore, session: str, after: int, text: str) -> int:
    """Appends until the store is full; the number of the last event that got in."""
    while True:
        try:
            after = await store.append(batch(session, after, text), 1)
        except StoreFull:
            return after


async def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """With no room left an append is refused as `StoreFull`; all that was acknowledged is there, also when reopened."""
    path = tmp_path / "store.db"
    async with open_sqlite(path, max_pages=150) as store:
        await begin(store, "s", "a")
        last = await fill(store, "s", 1, "x" * 3_000)
        assert last > 20
        assert await texts(store, "s") == ["a"] + ["x" * 3_000] * (last - 1)
        with pytest.raises(StoreFull, match="no room"):
            await store.append(batch("s", last, "y" * 9_000), 1)
    async with open_sqlite(path) as store:
        assert await texts(store, "s") == ["a"] + ["x" * 3_000] * (last - 1)
        await store.beat(ME)
        view = await store.take("s", ME)
        assert await store.append(batch("s", last, "y" * 9_000), view.generation) == last + 1


async def test_room_again(tmp_path: Path) -> None:
    """As soon as there is room the same store goes on, and the batch that was refused gets in."""
    async with open_sqlite(tmp_path / "store.db", max_pages=150) as store:
        await begin(store, "old", "z" * 100_000)
        await store.release("old", 1)
        await begin(store, "s", "a", run=True)
        last = await fill(store, "s", 1, "x" * 3_000)
        refused = batch("s", last, "x" * 3_000)
        with pytest.raises(StoreFull):
            await store.append(refused, 1)
        assert (await store.prune(FUTURE)).sessions == 1
        assert await store.append(refused, 1) == last + 1
        assert len(await texts(store, "s")) == last + 1


async def test_a_full_disk_in_the_middle_of_a_group(tmp_path: Path) -> None:
    """Of a group that does not fit, what fits is kept; who was refused is not in the log, and who was not, is."""
    async with open_sqlite(tmp_path / "store.db", max_pages=110) as store:
        for number in range(60):
            await begin(store, f"s{number}", "a")
        kept: set[int] = set()
        refused: set[int] = set()

        async def send(number: int) -> None:
            try:
                await store.append(batch(f"s{number}", 1, "x" * 9_000), 1)
                kept.add(number)
            except StoreFull:
                refused.add(number)

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(send, number)
        assert len(kept) > 5
        assert len(refused) > 5
        for number in range(60):
            assert len(await texts(store, f"s{number}")) == (2 if number in kept else 1)


async def test_a_locked_file(tmp_path: Path) -> None:
    """While another program has the file locked, writes fail as `StoreLocked`, reads go on, and then all is well."""
    path = tmp_path / "store.db"
    async with open_sqlite(path, busy_seconds=0.05) as store:
        await begin(store, "s", "a")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        locked: list[str] = []

        async def send(number: int) -> None:
            with pytest.raises(StoreLocked, match="another program"):
                await store.append(batch("s", 1, str(number)), 1)
            locked.append(str(number))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(send, number)
        assert len(locked) == 20
        assert await texts(store, "s") == ["a"]
        other.execute("ROLLBACK")
        other.close()
        assert await store.append(batch("s", 1, "b"), 1) == 2
        assert await texts(store, "s") == ["a", "b"]


@pytest.mark.parametrize("bad", range(0, 9, 2))
async def test_a_batch_that_cannot_be_written(tmp_path: Path, bad: int) -> None:
    """A batch that fails when it is written fails alone: its index row is no text, and nobody could know before."""
    async with open_sqlite(tmp_path / "store.db") as store:
        for number in range(9):
            await begin(store, f"s{number}", "a", run=True)
        failed: list[int] = []

        async def send(number: int) -> None:
            head: object = object() if number == bad else b"new"
            try:
                await store.append(batch(f"s{number}", 1, "b", runs=(row(f"s{number}", head=head),)), 1)
            except Exception:
                failed.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(9):
                nursery.start_soon(send, number)
        assert failed == [bad]
        for number in range(9):
            found = await store.run(f"s{number}")
            assert found is not None
            assert (found.head == b"new") == (number != bad)
            assert await texts(store, f"s{number}") == (["a"] if number == bad else ["a", "b"])
        assert await store.append(batch(f"s{bad}", 1, "b"), 1) == 2


async def test_a_record_that_is_none(tmp_path: Path) -> None:
    """A record that is no bytes fails alone, and leaves its session as it was."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
        wrong = Batch(session="s", id="x", after=1, records=(b"b", object()))  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.append_external, "s", "k", (b"c",))
            with pytest.raises(TypeError):
                await store.append(wrong, 1)
        assert await texts(store, "s") == ["a", "c"]


async def test_work_that_fails_half_way(tmp_path: Path) -> None:
    """Work that writes and then fails leaves nothing of itself, and everything of those in its group."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await store.submit(lambda connection: connection.execute("CREATE TABLE t (x)"))
        results: list[str] = []

        def bad(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO t VALUES ('bad')")
            raise StoreError("no more")

        async def send(number: int) -> None:
            try:
                await store.submit(
                    bad
                    if number % 4 == 1
                    else lambda connection: connection.execute(f"INSERT INTO t VALUES ({number})")
                )
                results.append(f"{number}")
            except StoreError as error:
                results.append(str(error))

        failures: list[Exception] = []
        store.post(bad, failures.append)
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(send, number)
        good = [number for number in range(12) if number % 4 != 1]
        rows = await store.query(lambda connection: connection.execute("SELECT x FROM t ORDER BY x").fetchall())
        assert rows == [(number,) for number in good]
        assert sorted(results) == sorted([*map(str, good), *["no more"] * 3])
        assert [str(failure) for failure in failures] == ["no more"]


async def test_order_of_what_is_handed_over(tmp_path: Path) -> None:
    """Work is done in the order in which it was handed over, whether somebody waits for it or not."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
        order: list[str] = []
        async with trio.open_nursery() as nursery:
            for number in range(10):
                store.post(lambda _, number=number: order.append(f"post {number}"))  # type: ignore[misc]
            nursery.start_soon(store.submit, lambda _: order.append("submit"))
            await wait_all_tasks_blocked()
        assert order == [*(f"post {number}" for number in range(10)), "submit"]


async def test_one_sync_for_many(tmp_path: Path) -> None:
    """Hundreds of appends at once become durable in a few commits."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await store.beat(ME)
        async with trio.open_nursery() as nursery:
            for number in range(400):
                nursery.start_soon(begin, store, f"s{number}", "a")
        commits: list[str] = []
        await store.submit(
            lambda c: c.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
        )
        commits.clear()
        async with trio.open_nursery() as nursery:
            for number in range(400):
                nursery.start_soon(store.append, batch(f"s{number}", 1, "b"), 1)
        assert 1 <= len(commits) <= 20


async def test_nothing_written_costs_no_commit(tmp_path: Path) -> None:
    """Beats, refusals and batches that were stored before begin no transaction."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
        again = batch("s", 1, "b")
        await store.append(again, 1)
        statements: list[str] = []
        await store.submit(lambda c: c.set_trace_callback(statements.append))
        statements.clear()
        for _ in range(5):
            await store.beat(ME)
            with pytest.raises(StoreError):
                await store.append(batch("s", 0, "x"), 1)
        assert not [text for text in statements if text.startswith(("BEGIN", "COMMIT", "INSERT"))]


async def test_cancelled_at_each_point(tmp_path: Path) -> None:
    """Cancelled at any moment, a taking or an append is done whole or not at all, and nothing of the store is stuck."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await store.beat(ME)
        for wait in range(6):
            name = f"s{wait}"
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(
                        lambda name=name: store.take(name, ME, batch=batch(name, 0, "a", "b", runs=(row(name),)))
                    )
                    for _ in range(wait):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            await store.submit(lambda _: None)
            runs = [view.session for view in await store.sessions()]
            assert (await store.run(name) is not None) == (name in runs)
            if name in runs:
                assert await texts(store, name) == ["a", "b"]
