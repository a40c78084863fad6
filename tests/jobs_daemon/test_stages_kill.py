"""A daemon is killed among planning, working, closing and summing up, or in a debate; others go on with the job."""

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from orchestrator.store.base import RunQuery
from tests.jobs_daemon.debaters import ROUNDS
from tests.jobs_daemon.fake_runs import PATIENCE, read, until, until_ended
from tests.jobs_daemon.killed_debate import debating
from tests.jobs_daemon.killed_stages import QUORUM, SUBTASKS, daemon


@pytest.mark.parametrize("seed", range(2))
async def test_killed_again_and_again_a_planned_job_ends_once(tmp_path: Path, seed: int) -> None:
    """After SIGKILLs in any stage the job has its quorum, a line per run in all, one answer, and all paid once."""
    chance = random.Random(seed)
    data, notes = tmp_path / "data", tmp_path / "notes"
    for calls in (0, 1, 2, 5, 12, 18):
        await _killed(data, notes, calls=calls, after=chance.random() * 0.03)
    with trio.fail_after(PATIENCE):
        async with daemon(data, notes) as (jobs, store):
            view = await until_ended(jobs, "j")
            rows = await read(jobs, "j")
            assert (view.phase, view.stage, view.answer) == ("done", "ended", "the answer"), view.message
            assert view.message.endswith(f"items are done, and {QUORUM} are enough")
            assert view.done == sum(row.state == "done" for row in rows) >= QUORUM
            runs = (await store.runs(RunQuery(job="j", size=100))).rows
            assert not any(run.open for run in runs)
            items = {run.run for run in runs} - {"j.plan", "j.plan-repair", "j.synthesis"}
            assert Counter(row.ordinal for row in rows) == Counter(range(1, SUBTASKS + 1))
            assert {f"j.{row.ordinal}" for row in rows if not row.never_begun} == items
            losers = [row for row in rows if row.ordinal >= 20]
            assert losers
            assert {row.reason for row in losers} == {"cancelled"}
            # a loser may have had its answer when the job had enough: then that was paid as well, and is in its row
            assert all(row.usage.output == 5 for row in rows if row.state == "done")
            assert view.usage.output == sum(row.usage.output or 0 for row in rows) + 5 * 3


@pytest.mark.parametrize("seed", range(2))
async def test_killed_again_and_again_a_debate_goes_on_with_its_next_round(tmp_path: Path, seed: int) -> None:
    """After SIGKILLs in and between rounds every round was said once, paid once, and the debate has converged."""
    chance = random.Random(seed)
    data, notes = tmp_path / "data", tmp_path / "notes"
    for calls in (0, 1, 2, 4, 6):
        await _killed(data, notes, "killed_debate", calls=calls, after=chance.random() * 0.02)
    with trio.fail_after(PATIENCE):
        async with debating(data, notes) as (jobs, store):
            view = await until_ended(jobs, "j")
            rows = await read(jobs, "j")
            runs = (await store.runs(RunQuery(job="j", size=100))).rows
    assert (view.phase, view.answer) == ("done", "merge, 1 answered")
    assert [row.ordinal for row in rows] == [*range(1, ROUNDS + 1)]
    assert {run.run for run in runs} == {f"j.{row.ordinal}" for row in rows}
    assert not any(run.open for run in runs)
    assert view.usage.output == 5 * ROUNDS


async def _killed(data: Path, notes: Path, program: str = "killed_stages", *, calls: int, after: float) -> None:
    """Lets a daemon work until the model has answered so often in all, and kills it."""
    command = [sys.executable, "-m", f"tests.jobs_daemon.{program}", str(data), str(notes)]
    with subprocess.Popen(command) as child:  # noqa: ASYNC220 -- it starts at once
        try:
            await until(lambda: child.poll() is not None or (notes.exists() and _lines(notes) >= calls))
            await trio.sleep(after)
        finally:
            child.send_signal(signal.SIGKILL)


def _lines(notes: Path) -> int:
    return notes.read_bytes().count(b"\n")
