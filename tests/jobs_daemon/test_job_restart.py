"""Jobs outlive their daemon, whether it drained or was killed."""

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog.testing
import trio
import trio.testing

from agents.amounts import Limits
from agents.errors import Draining
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs.errors import DuplicateJob, JobStorageError
from orchestrator.jobs.files import JobFolder
from orchestrator.jobs.record import JobRecord
from orchestrator.jobs.service import JobService
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import (
    CATALOGUE,
    REQUEST,
    FakeRuns,
    ended,
    feed,
    instantly,
    last,
    lines,
    never,
    read,
    serving,
    task,
    until,
    until_ended,
    upload,
)

replace = msgspec.structs.replace


async def test_a_torn_result_is_cut_and_its_item_runs_again(tmp_path: Path) -> None:
    """Half a line at the end of the results counts for nothing; a damaged line in the middle is told and run again."""
    await _left_live(tmp_path, done=5)
    results = tmp_path / "jobs" / "j" / "results.jsonl"
    kept = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join([*kept[:2], b"\0" * 50 + b"\n", *kept[3:4], kept[4][:-7]]))
    runs = FakeRuns()
    with structlog.testing.capture_logs() as logs:
        async with serving(tmp_path, runs) as service:
            assert service.view("j").done == 3
            assert results.read_bytes() == b"".join([*kept[:2], kept[3]])
            await service.complete("j")
            assert (await until_ended(service, "j")).done == 5
    assert sorted(task(request) for request in runs.asked) == [3, 5]
    assert any("1 lines cannot be read" in str(log["event"]) for log in logs)


async def test_draining_lets_live_items_end_and_begins_no_more(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Within the grace live items end with a line; the rest waits for the next daemon, which runs exactly that."""

    async def ten_seconds(request: RunRequest) -> RunResult:
        await trio.sleep(10 if task(request) % 2 else 30)
        return ended(request)

    runs = FakeRuns(ten_seconds)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=4, ordered=True))
        await service.create(replace(REQUEST, job="idle"))
        await upload(service, "j", lines(range(1, 21)))
        await until(lambda: runs.live == 4)
        began = trio.current_time()
        service.close(20)
        assert service.view("j").phase == "stopping"
        with pytest.raises(Draining):
            await service.create(replace(REQUEST, job="late"))
        await service.all_ended()
        assert trio.current_time() - began <= 20.5
        view = service.view("j")
        assert (view.phase, view.done, view.cancelled, view.live) == ("interrupted", 2, 2, 0)
        assert view.message == "the daemon is shutting down"
        assert service.view("idle").phase == "interrupted"
        with pytest.raises(Draining):
            await service.retry("j")
        assert len(runs.asked) == 4
        assert service.live == 0
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        now = service.view("j")
        assert (now.phase, now.done, now.message, now.received) == ("running", 2, "", 20)
        await service.complete("j")
        assert (await until_ended(service, "j")).phase == "done"
        assert sorted(last(await read(service, "j"))) == list(range(1, 21))
    assert {task(request) for request in runs.asked} == set(range(1, 21)) - {1, 3}


async def test_a_job_that_was_whole_when_the_daemon_closed_has_ended(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Closing while the last items run, and they end in time, leaves a job that is done and not interrupted."""

    async def a_second(request: RunRequest) -> RunResult:
        await trio.sleep(1)
        return ended(request)

    runs = FakeRuns(a_second)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, service, "j", lines([1, 2]))
            await until(lambda: runs.live == 2 and service.view("j").complete)
            service.close(5)
        await service.all_ended()
        view = service.view("j")
        assert (view.phase, view.message, view.done) == ("done", "", 2)


async def test_hurrying_takes_live_items_away(tmp_path: Path) -> None:
    """A second signal waits for nothing."""
    runs = FakeRuns(never)
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(100)))
        await until(lambda: runs.live == 64)
        service.close()
        service.hurry()
        await service.all_ended()
        view = service.view("j")
        assert (view.phase, view.cancelled, runs.live) == ("interrupted", 64, 0)


async def test_runs_that_the_daemon_refuses_or_takes_away_are_not_failures(tmp_path: Path) -> None:
    """Where the run service drains first, items it refuses are left for the next attempt."""

    async def draining(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        if task(request) <= 2:
            return ended(request)
        if task(request) == 3:
            raise Draining("the daemon is shutting down and starts nothing new")
        return ended(request, StopReason.CANCELLED)

    async with serving(tmp_path, FakeRuns(draining)) as service:
        await service.create(replace(REQUEST, workers=2, fail_fast=True))
        await feed(service, "j", lines(range(1, 50)))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("interrupted", 2, 0)
        assert view.cancelled in (1, 2)


async def test_cancelling_the_nursery_leaves_jobs_interrupted(tmp_path: Path) -> None:
    """Also where everything around is cancelled at once, the jobs' end is on disk."""
    runs = FakeRuns(never)
    async with trio.open_nursery() as nursery:
        service = JobService(nursery, tmp_path, runs=runs, catalogue=lambda: CATALOGUE)
        await service.open()
        await service.create(REQUEST)
        await upload(service, "j", lines([1, 2]))
        await until(lambda: runs.live == 2)
        nursery.cancel_scope.cancel()
    assert _record(tmp_path).phase == "interrupted"
    assert _record(tmp_path).received == 2


async def test_a_cancelled_job_stays_cancelled_when_the_daemon_dies_meanwhile(tmp_path: Path) -> None:
    """A cancellation that was acknowledged outlives the daemon."""
    await _left_live(tmp_path, done=1, phase="stopping", message="cancelled on request")
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        view = await until_ended(service, "j")
        assert (view.phase, view.message, view.done) == ("cancelled", "cancelled on request", 1)
    assert runs.asked == []


async def test_what_cannot_be_read_is_told_and_left_alone(tmp_path: Path) -> None:
    """Folders that are no jobs, damaged ones and those of later versions are named in the log and never touched."""
    await _left_live(tmp_path, done=1)
    jobs = tmp_path / "jobs"
    strange = {"a b": "must be", "no-record": "no job.json", "torn": "truncated", "later": "version 99", "moved": "'j'"}
    for name in strange:
        (jobs / name).mkdir()
    record = (jobs / "j" / "job.json").read_bytes()
    (jobs / "torn" / "job.json").write_bytes(record[:100])
    (jobs / "later" / "job.json").write_bytes(record.replace(b'"format": 1', b'"format": 99'))
    (jobs / "moved" / "job.json").write_bytes(record)
    (jobs / "a-file").write_text("?")
    (jobs / ".new-half").mkdir()
    (jobs / ".removed-gone").mkdir()
    with structlog.testing.capture_logs() as logs:
        async with serving(tmp_path) as service:
            assert [view.job for view in service.list().jobs] == ["j"]
            with pytest.raises(DuplicateJob, match="something else called torn"):
                await service.create(replace(REQUEST, job="torn"))
    told = [str(log["event"]) for log in logs if log["log_level"] == "warning"]
    for name, why in strange.items():
        assert any(str(jobs / name) + " " in line and why in line for line in told), (name, told)
    assert any("a-file" in line for line in told)
    assert sorted(path.name for path in jobs.iterdir()) == sorted([*strange, "a-file", "j"])


async def test_interrupted_jobs_keep_what_is_left_of_their_budget(tmp_path: Path) -> None:
    """Going on after an interruption grants nothing new."""
    budget = Limits(tokens=1000, timeout=100)
    await _left_live(tmp_path, done=3, request=replace(REQUEST, budget=budget))
    now = _record(tmp_path).granted_at + 40
    runs = FakeRuns()
    async with serving(tmp_path, runs, wall=lambda: now) as service:
        await upload(service, "j", lines([4]))
        await service.complete("j")
        await until_ended(service, "j")
        scope = runs.budgets[0]
        assert scope is not None
        assert (scope.used.tokens, scope.used.rounds, scope.limits) == (45, 3, budget)
        assert scope.deadline() == pytest.approx(trio.current_time() + 60, abs=5)


async def test_ended_jobs_are_as_they_were(tmp_path: Path) -> None:
    """A new daemon shows an ended job exactly as the old one did, with its results."""

    async def some_fail(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR, micro_dollars=7) if task(request) == 2 else ended(request)

    async with serving(tmp_path, FakeRuns(some_fail)) as service:
        await service.create(replace(REQUEST, name="mine", weight=2.0, workers=3))
        await feed(service, "j", lines([1, 2, 3]))
        view = await until_ended(service, "j")
        results = await read(service, "j")
    async with serving(tmp_path) as service:
        assert service.view("j") == view
        assert await read(service, "j") == results


async def test_a_disk_that_takes_nothing_refuses_new_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no folder can be made the error says which and why, and no job is there."""

    def read_only(self: Path, *args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    async with serving(tmp_path) as service:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "mkdir", read_only)
            with pytest.raises(JobStorageError, match="jobs/j cannot be made: read-only file system"):
                await service.create(REQUEST)
        assert service.list().jobs == ()
        await service.create(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", read_only)
        service = JobService(None, tmp_path / "x", runs=FakeRuns(), catalogue=lambda: CATALOGUE)  # type: ignore[arg-type]
        with pytest.raises(JobStorageError, match="cannot be used"):
            await service.open()


async def test_results_that_cannot_be_written_end_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full under the results ends the job with that message; a retry adds the lines it lacks."""
    write = os.pwrite
    full = False

    def limited(fd: int, data: bytes, offset: int) -> int:
        if full and b'"ordinal"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, offset)

    async def fills_up(request: RunRequest) -> RunResult:
        nonlocal full
        await trio.lowlevel.checkpoint()
        full = task(request) >= 4
        return ended(request)

    monkeypatch.setattr(os, "pwrite", limited)
    runs = FakeRuns(fills_up)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1))
        await feed(service, "j", lines(range(1, 10)))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 4, 0)
        assert view.message.endswith("results.jsonl: no space left on device")
        assert len(await read(service, "j")) == 3
        full = False
        runs.answer = instantly
        await service.retry("j")
        assert (await until_ended(service, "j")).done == 9
        assert [line.ordinal for line in await read(service, "j")] == list(range(1, 10))
        assert [task(request) for request in runs.asked] == list(range(1, 10))


def _record(data_dir: Path) -> JobRecord:
    return msgspec.json.decode((data_dir / "jobs" / "j" / "job.json").read_bytes(), type=JobRecord)


async def _left_live(data_dir: Path, done: int, request: Any = REQUEST, **record: Any) -> None:
    """A job's folder as a daemon leaves it that is killed when `done` items are done."""
    async with serving(data_dir) as service:
        await service.create(request)
        await upload(service, "j", lines(range(1, done + 1)))
        await until(lambda: service.view("j").done == done)
    left = replace(_record(data_dir), **{"phase": "running", "ended": None, "message": "", **record})
    JobFolder(data_dir / "jobs" / "j").save(left)
