"""A daemon is killed in the middle of a job, and others go on with it."""

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from orchestrator.jobs.service import JobService
from tests.jobs_daemon.fake_runs import PATIENCE, decode, read, until
from tests.jobs_daemon.killed_daemon import work

ITEMS = 400


@pytest.mark.parametrize("seed", range(4))
async def test_killed_again_and_again_a_job_ends_with_each_result_once(tmp_path: Path, seed: int) -> None:
    """After any number of SIGKILLs at random points each item has one line, and what had finished was run once."""
    chance = random.Random(seed)
    data, notes = tmp_path / "data", tmp_path / "notes"
    results = data / "jobs" / "j" / "results.jsonl"
    seen = b""
    kills = 0
    for _ in range(4):
        done = results.read_bytes().count(b"\n") if results.exists() else 0
        kills += await _killed(data, notes, until_lines=done + chance.randint(0, 90), after=chance.random() * 0.02)
        if results.exists():
            shown = results.read_bytes()
            assert shown.startswith(seen), "a line that a reader has seen was changed"
            seen = shown[: shown.rfind(b"\n") + 1]
    assert kills >= 2

    async def look(service: JobService) -> None:
        view = service.view("j")
        assert (view.phase, view.done, view.failed, view.received) == ("done", ITEMS, 0, ITEMS)
        final = await read(service, "j")
        assert Counter(line.ordinal for line in final) == Counter(range(1, ITEMS + 1))
        assert view.usage.output == 5 * ITEMS
        assert view.result_bytes == results.stat().st_size

    with trio.fail_after(PATIENCE):
        await work(data, notes, ITEMS, look)
    assert results.read_bytes().startswith(seen)
    assert Counter(notes.read_text().split()) == Counter(f"j.{n}" for n in range(1, ITEMS + 1))


async def test_a_tail_that_never_reached_the_disk_is_written_again(tmp_path: Path) -> None:
    """Results lost or spoilt by a loss of power come back from the log, and readers' offsets stay right."""
    data, notes = tmp_path / "data", tmp_path / "notes"
    results = data / "jobs" / "j" / "results.jsonl"
    while not await _killed(data, notes, until_lines=150, after=0.0):
        pass
    whole = results.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    assert len(decode(whole)) < ITEMS
    half = len(whole) // 2
    results.write_bytes(whole[:half] + b"\0" * 300)

    async def look(service: JobService) -> None:
        final = await read(service, "j")
        assert Counter(line.ordinal for line in final) == Counter(range(1, ITEMS + 1))

    with trio.fail_after(PATIENCE):
        await work(data, notes, ITEMS, look)
    assert results.read_bytes().startswith(whole)
    assert Counter(notes.read_text().split()) == Counter(f"j.{n}" for n in range(1, ITEMS + 1))


async def _killed(data: Path, notes: Path, *, until_lines: int, after: float) -> bool:
    """Lets a daemon work until there are so many results, kills it, and says whether it had to be killed."""
    results = data / "jobs" / "j" / "results.jsonl"
    command = [sys.executable, "-m", "tests.jobs_daemon.killed_daemon", str(data), str(notes), str(ITEMS)]
    with subprocess.Popen(command) as child:  # noqa: ASYNC220 -- it starts at once
        try:
            await until(
                lambda: (
                    child.poll() is not None or (results.exists() and results.read_bytes().count(b"\n") >= until_lines)
                )
            )
            await trio.sleep(after)
        finally:
            child.send_signal(signal.SIGKILL)
    return child.returncode == -signal.SIGKILL
