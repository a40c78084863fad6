"""The file of the store in SQLite: who may open it, and what is in it when it is opened again."""

import os
import sqlite3
from pathlib import Path

import pytest

from orchestrator.store import sqlite_schema
from orchestrator.store.base import RunQuery
from orchestrator.store.errors import StoreClosed, StoreLocked, StoreUnusable
from orchestrator.store.sqlite import open_sqlite
from tests.store.stores import ME, OTHER, batch, begin, row, texts


async def test_everything_is_there_again(tmp_path: Path) -> None:
    """Closed and opened again, the file has every session, run, blob and generation as they were."""
    path = tmp_path / "store.db"
    large = "x" * 200_000
    async with open_sqlite(path) as store:
        await begin(store, "s", "a", large, run=True)
        await store.append(batch("s", 2, "c", id="c", runs=(row("s", state="waiting"),)), 1)
        digest = await store.put_blob(b"blob")
        before = (await store.session("s"), await store.runs(RunQuery()), await store.states())
    async with open_sqlite(path) as store:
        assert (await store.session("s"), await store.runs(RunQuery()), await store.states()) == before
        assert await texts(store, "s") == ["a", large, "c"]
        assert await store.get_blob(digest) == b"blob"
        assert await store.append(batch("s", 2, "c", id="c"), 1) == 3


async def test_who_was_alive_is_not_any_more(tmp_path: Path) -> None:
    """Sessions are free as soon as the file is open again: an executor of an earlier process is not alive."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
    async with open_sqlite(tmp_path / "store.db") as store:
        await store.beat(OTHER)
        view = await store.take("s", OTHER)
        assert (view.generation, view.holder) == (2, OTHER)


async def test_one_at_a_time(tmp_path: Path) -> None:
    """A second one that opens the file is refused and hears which process has it; after the first has gone it opens."""
    path = tmp_path / "store.db"
    async with open_sqlite(path):
        with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
            async with open_sqlite(path):
                pass
    async with open_sqlite(path):
        pass


async def test_nothing_after_closing(tmp_path: Path) -> None:
    """What is asked of a closed store is refused; what was handed over before is done."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
        done: list[str] = []
        store.post(lambda _: done.append("posted"))
    assert done == ["posted"]
    with pytest.raises(StoreClosed):
        await store.append(batch("s", 1, "b"), 1)
    with pytest.raises(StoreClosed):
        await store.read("s")


async def test_another_programs_database(tmp_path: Path) -> None:
    """A database that is not Headrace's is refused and left as it is."""
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program's database"):
        async with open_sqlite(path):
            pass
    assert path.read_bytes() == before


async def test_no_database(tmp_path: Path) -> None:
    """A file that is no database is refused and left as it is."""
    path = tmp_path / "store.db"
    path.write_bytes(b"[config]\n" * 500)
    with pytest.raises(StoreUnusable, match="no SQLite database"):
        async with open_sqlite(path):
            pass
    assert path.read_bytes() == b"[config]\n" * 500


async def test_no_folder(tmp_path: Path) -> None:
    """A folder that is not there is named."""
    with pytest.raises(StoreUnusable, match=r"nowhere/store\.db: no such file or directory"):
        async with open_sqlite(tmp_path / "nowhere" / "store.db"):
            pass


async def test_a_later_release_wrote_it(tmp_path: Path) -> None:
    """Tables of a later version are refused with both versions named, and nothing is changed."""
    path = tmp_path / "store.db"
    async with open_sqlite(path) as store:
        await begin(store, "s", "a")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(
        StoreUnusable, match=f"version 99 of the tables, and this release knows {len(sqlite_schema.STEPS)}"
    ):
        async with open_sqlite(path):
            pass


async def test_an_earlier_release_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of an earlier version are brought up to this one, with what is in them, and only once."""
    path = tmp_path / "store.db"
    async with open_sqlite(path) as store:
        await begin(store, "s", "a")
    later = (*sqlite_schema.STEPS, "ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT 'none'")
    monkeypatch.setattr(sqlite_schema, "STEPS", later)
    for _ in range(2):
        async with open_sqlite(path) as store:
            note = await store.query(lambda connection: connection.execute("SELECT note FROM sessions").fetchall())
            version = await store.query(lambda connection: connection.execute("PRAGMA user_version").fetchone())
            assert (note, version) == ([("none",)], (len(later),))
            assert await texts(store, "s") == ["a"]


async def test_an_upgrade_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails half-way leaves the file as it was, for the release that wrote it."""
    path = tmp_path / "store.db"
    async with open_sqlite(path) as store:
        await begin(store, "s", "a")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_schema, "STEPS", (*sqlite_schema.STEPS, "DROP VIEW log; DROP TABLE not_there"))
        with pytest.raises(Exception, match="not_there"):
            async with open_sqlite(path):
                pass
    async with open_sqlite(path) as store:
        assert await store.query(lambda c: c.execute("SELECT * FROM log").fetchall()) != []
        await store.beat(ME)
        assert (await store.take("s", ME)).last == 1


async def test_people_can_read_it(tmp_path: Path) -> None:
    """The view `log` shows events as text to whoever looks with SQLite's own shell, while the store is open."""
    path = tmp_path / "store.db"
    async with open_sqlite(path) as store:
        await begin(store, "s", '{"type":"a"}', "x" * 140_000)
        shell = sqlite3.connect(path)
        rows = shell.execute("SELECT session, number, event FROM log ORDER BY number").fetchall()
        shell.close()
    assert rows == [("s", 1, '{"type":"a"}'), ("s", 2, "x" * 140_000)]


async def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """The file and what stands beside it are readable by their owner alone, whatever the process' mask is."""
    mask = os.umask(0)
    try:
        async with open_sqlite(tmp_path / "store.db") as store:
            await begin(store, "s", "a")
            modes = {entry.name: entry.stat().st_mode & 0o777 for entry in os.scandir(tmp_path)}
    finally:
        os.umask(mask)
    assert modes == dict.fromkeys(["store.db", "store.db-shm", "store.db-wal", "store.db.lock"], 0o600)


async def test_the_reader_cannot_write(tmp_path: Path) -> None:
    """What is given to the reader changes nothing: it is refused."""
    async with open_sqlite(tmp_path / "store.db") as store:
        await begin(store, "s", "a")
        with pytest.raises(StoreUnusable):
            await store.query(lambda connection: connection.execute("DELETE FROM events"))
        assert await texts(store, "s") == ["a"]
