"""A crash leaves the write-ahead log torn anywhere behind the last commit: whatever stands there, nothing is lost.

The files are copied while the store is open, as a crash would leave them. What is appended last is what was under way:
its frames are cut short, or overwritten, at many places.
"""

import random
from pathlib import Path

import pytest

from orchestrator.store.sqlite import open_sqlite
from tests.store.stores import ME, batch, begin, row, texts

ACKNOWLEDGED = ["a", "b" * 2_000, "c" * 150_000]
UNDER_WAY = ["d" * 9_000, "e"]


class Crash:
    """The files as they were after the last acknowledgement, and after the commit that nobody was told of."""

    def __init__(self, main: bytes, acknowledged: bytes, under_way: bytes) -> None:
        self.main = main
        self.acknowledged = acknowledged
        self.under_way = under_way

    def leave(self, folder: Path, log: bytes) -> Path:
        path = folder / "store.db"
        path.write_bytes(self.main)
        Path(f"{path}-wal").write_bytes(log)
        Path(f"{path}-shm").unlink(missing_ok=True)
        return path


@pytest.fixture
async def crash(tmp_path: Path) -> Crash:
    path = tmp_path / "first.db"
    log = tmp_path / "first.db-wal"
    async with open_sqlite(path) as store:
        await begin(store, "s", *ACKNOWLEDGED[:1], run=True)
        for number, text in enumerate(ACKNOWLEDGED[1:], 1):
            await store.append(batch("s", number, text), 1)
        main, acknowledged = path.read_bytes(), log.read_bytes()
        await store.append(batch("s", 3, *UNDER_WAY, runs=(row("s", state="waiting"),)), 1)
        assert path.read_bytes() == main
        return Crash(main, acknowledged, log.read_bytes())


async def recovered(path: Path) -> list[str]:
    """What the log holds after the crash; and the store goes on from there."""
    async with open_sqlite(path) as store:
        found = await texts(store, "s")
        run = await store.run("s")
        assert run is not None
        assert run.state == ("waiting" if len(found) > 3 else "running")
        await store.beat(ME)
        view = await store.take("s", ME)
        assert view.last == len(found)
        assert await store.append(batch("s", view.last, "next"), view.generation) == len(found) + 1
        assert await texts(store, "s") == [*found, "next"]
        assert await store.query(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
        return found


async def test_killed_behind_an_acknowledgement(crash: Crash, tmp_path: Path) -> None:
    """What was acknowledged is there after a kill; what was committed and not yet told, as well."""
    assert await recovered(crash.leave(tmp_path, crash.acknowledged)) == ACKNOWLEDGED
    assert await recovered(crash.leave(tmp_path, crash.under_way)) == ACKNOWLEDGED + UNDER_WAY


async def test_cut_short(crash: Crash, tmp_path: Path) -> None:
    """Cut anywhere behind the last acknowledged frame, the log has exactly what was acknowledged."""
    start, end = len(crash.acknowledged), len(crash.under_way)
    assert end - start > 4_096
    places = {start, start + 1, start + 23, start + 24, end - 1, end - 4_097}
    places |= set(random.Random(1).sample(range(start, end), 14))
    for place in sorted(places):
        assert await recovered(crash.leave(tmp_path, crash.under_way[:place])) == ACKNOWLEDGED, place


async def test_garbled(crash: Crash, tmp_path: Path) -> None:
    """With any byte behind the last acknowledged frame flipped, the log has exactly what was acknowledged."""
    start, end = len(crash.acknowledged), len(crash.under_way)
    for place in sorted({start, end - 1, *random.Random(2).sample(range(start, end), 14)}):
        log = bytearray(crash.under_way)
        log[place] ^= 0x40
        assert await recovered(crash.leave(tmp_path, bytes(log))) == ACKNOWLEDGED, place


@pytest.mark.parametrize("tail", [b"\x00" * 9_000, b"\xff" * 5_000, random.Random(3).randbytes(50_000)])
async def test_rubbish_behind_it(crash: Crash, tmp_path: Path, tail: bytes) -> None:
    """Rubbish behind the last acknowledged frame changes nothing."""
    assert await recovered(crash.leave(tmp_path, crash.acknowledged + tail)) == ACKNOWLEDGED


async def test_a_half_of_a_group(crash: Crash, tmp_path: Path) -> None:
    """Zeros where a later frame should be: a file that grew before its data came, as file systems leave it."""
    start = len(crash.acknowledged)
    log = crash.under_way[: start + 4_120] + b"\x00" * (len(crash.under_way) - start - 4_120)
    assert await recovered(crash.leave(tmp_path, log)) == ACKNOWLEDGED
