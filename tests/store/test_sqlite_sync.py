"""Acknowledged means synced: seen from outside, by the system calls of a process that appends."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.store.sqlite import open_sqlite
from tests.store.appender import APPENDS
from tests.store.stores import texts

CALLS = "write,pwrite64,fsync,fdatasync"
ROOT = Path(__file__).parents[2]


def traced(path: Path, how: str, *options: str) -> tuple[list[str], list[str]]:
    """Runs the appender under strace: its system calls in the order of their ends, and what it said."""
    trace = path.with_suffix(".trace")
    command = ["strace", "-f", "-y", "-s", "64", "-o", str(trace), "-e", f"trace={CALLS}", *options]
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.store.appender", str(path), how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "done" in done.stdout, done.stderr
    return list(_ended(trace.read_text("utf-8", "replace").splitlines())), done.stdout.splitlines()


def _ended(lines: list[str]) -> Iterator[str]:
    """Each call at the place where it ended, whole: strace cuts in two what other threads' calls came between."""
    begun: dict[str, str] = {}
    for line in lines:
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", call):
            yield begun.pop(thread) + resumed[1]
        else:
            yield call


def unsynced(calls: list[str]) -> list[str]:
    """Acknowledgements before which no sync of the log ended, or no write to it, since the one before."""
    found = []
    written = synced = False
    for call in calls:
        if call.startswith("pwrite64(") and "-wal>" in call:
            written, synced = True, False
        elif re.match(r"f(data)?sync\(", call) and "-wal>" in call and call.endswith("= 0"):
            synced = written
        elif said := re.search(r'write\(1<[^"]*"acknowledged ([^\\]*)', call):
            if not synced:
                found.append(said[1])
            written = synced = False
    return found


@pytest.fixture(autouse=True)
def strace() -> None:
    """Skips where processes cannot be traced; fails there under CI."""
    reason = ""
    if shutil.which("strace") is None:
        reason = "strace is not installed"
    else:
        command = ["strace", "-o", os.devnull, "true"]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        if tried.returncode:
            reason = f"strace may not trace here: {tried.stderr.strip()}"
    if reason and os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must see that what is acknowledged is synced: {reason}")
    if reason:
        pytest.skip(reason)


def test_a_sync_before_each_acknowledgement(tmp_path: Path) -> None:
    """Before each acknowledgement the log is written and then synced."""
    calls, said = traced(tmp_path / "store.db", "one")
    assert said == ["open", *(f"acknowledged s0 {number + 1}" for number in range(APPENDS)), "done"]
    assert unsynced(calls) == []


def test_the_test_can_fail(tmp_path: Path) -> None:
    """Of a store that does not sync the same look finds every acknowledgement wanting."""
    calls, _ = traced(tmp_path / "store.db", "loose")
    assert len(unsynced(calls)) == APPENDS


def test_a_group_shares_its_sync(tmp_path: Path) -> None:
    """Ten at once are acknowledged after a sync that ended behind the last write of their group, and share it."""
    calls, said = traced(tmp_path / "store.db", "many")
    acknowledged = [text for text in said if text.startswith("acknowledged")]
    assert len(acknowledged) == 40
    begun = next(at for at, call in enumerate(calls) if '"open' in call)
    ended = next(at for at, call in enumerate(calls) if '"done' in call)
    log = [call for call in calls[begun:ended] if "-wal>" in call and re.match(r"f(data)?sync\(", call)]
    assert 4 <= len(log) < 40
    first = next(at for at, call in enumerate(calls) if '"acknowledged' in call)
    assert any(re.match(r"f(data)?sync\(", call) and "-wal>" in call for call in calls[begun:first])


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("fdatasync:error=EIO:when=4+", "StoreError"),
        ("pwrite64:error=ENOSPC:when=40+", "StoreFull"),
        ("pwrite64:error=EIO:when=40+", "StoreError"),
    ],
)
async def test_a_disk_that_fails(tmp_path: Path, fault: str, error: str) -> None:
    """Where a sync or a write fails the append is refused, and what was acknowledged before is there afterwards."""
    path = tmp_path / "store.db"
    # Made before: faults are counted by thread, so that these come in the writer's while it appends.
    async with open_sqlite(path):
        pass
    _, said = traced(path, "one", "-e", f"inject={fault}")
    refused = [text for text in said if text.startswith("refused")]
    acknowledged = [text for text in said if text.startswith("acknowledged")]
    assert len(refused) == 1
    assert refused[0].endswith(error)
    assert acknowledged
    async with open_sqlite(path) as store:
        assert len(await texts(store, "s0")) >= len(acknowledged)
