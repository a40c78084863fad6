"""Jobs that close early: over scripted runs, and over the real run service with losers to take away."""

from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs import losers
from orchestrator.jobs.record import NEVER_BEGUN, JobLine
from orchestrator.jobs.service import JobService
from orchestrator.jobs.writing import Ended, LineWriter
from orchestrator.store.base import RunQuery
from orchestrator.store.memory import MemoryStore
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.jobs import GatherRequest, JobView
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    ended,
    feed,
    instantly,
    lines,
    read,
    serving,
    task,
    until,
    until_ended,
    upload,
)
from tests.jobs_daemon.test_job_runs import QUICK, Model, daemon

replace = msgspec.structs.replace


async def odd_ones_fail(request: RunRequest) -> RunResult:
    await trio.lowlevel.checkpoint()
    return ended(request, StopReason.TOOL_ERROR) if task(request) % 2 else ended(request)


async def test_a_quorum_takes_its_losers_away_with_a_line_each(tmp_path: Path) -> None:
    """When enough are done the job is done: runs under way are cancelled, and every input has its row in the table."""
    async with open_sqlite(tmp_path / "store.db") as store:
        model = Model()
        async with daemon(tmp_path, store, model) as (_, jobs):
            gather = GatherRequest(policy="quorum", count=QUICK)
            await jobs.create(replace(REQUEST, workers=12, gather=gather))
            await feed(jobs, "j", lines([*range(10, 13), *range(1, 10), *range(13, 30)]))
            view = await until_ended(jobs, "j")
            rows = await read(jobs, "j")
        assert (view.phase, view.done, view.message) == ("done", QUICK, "9 items are done, and 9 are enough")
        assert view.failures == {"cancelled": view.failed}
        begun = {row.run for row in (await store.runs(RunQuery(job="j"))).rows}
        assert begun == {f"j.{row.ordinal}" for row in rows if not row.never_begun}
        assert sorted(row.ordinal for row in rows) == [*range(1, 30)]
        assert view.done + view.failed == 29 > len(begun)
        assert {row.reason for row in rows if row.state == "failed"} == {"cancelled"}
        assert (await store.runs(RunQuery(job="j", open=True))).total == 0
        assert (view.cancelled, model.waiting) == (0, 0)


async def test_a_quorum_out_of_reach_closes_the_job_at_once(tmp_path: Path) -> None:
    """As soon as too many have failed the job fails, and begins nothing more."""
    runs = FakeRuns(odd_ones_fail)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1, gather=GatherRequest(policy="quorum", count=18)))
        await feed(service, "j", lines(range(1, 21)))
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.failed) == ("failed", 2, 18)
    assert view.failures == {"tool_error": 3, "cancelled": 15}
    assert view.errors == tuple(f"in:{n}: it went wrong" for n in (1, 3, 5))
    assert view.message == "18 items have to be done, and no more than 17 of 20 can be"
    assert len(runs.asked) == 5


async def test_a_quorum_of_more_than_there_are_fails_when_the_inputs_are_complete(tmp_path: Path) -> None:
    """That nothing more will come can be what puts a quorum out of reach."""

    async def third_waits(request: RunRequest) -> RunResult:
        if task(request) == 3:
            await trio.sleep_forever()
        return await instantly(request)

    async with serving(tmp_path, FakeRuns(third_waits)) as service:
        await service.create(replace(REQUEST, gather=GatherRequest(policy="quorum", count=4)))
        await upload(service, "j", lines([1, 2, 3]))
        await until(lambda: service.view("j").done == 2)
        assert service.view("j").phase == "running"
        await service.complete("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.message) == (
        "failed",
        2,
        "4 items have to be done, and no more than 3 of 3 can be",
    )


async def test_all_ends_with_the_first_failure_and_a_retry_may_succeed(tmp_path: Path) -> None:
    """One failed item fails the job; tried again, earlier failures count for nothing."""
    runs = FakeRuns(odd_ones_fail)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1, gather=GatherRequest(policy="all")))
        await feed(service, "j", lines([2, 4, 5, 6]))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 2, 2)
        assert view.message == "an item failed: in:5: it went wrong"
        runs.answer = instantly
        await service.retry("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.failed, view.message) == ("done", 4, 0, "")


@pytest.mark.parametrize("only_failed", [False, True])
async def test_what_was_never_begun_is_cancelled_and_no_failure_to_try_again(tmp_path: Path, only_failed: bool) -> None:
    """It has a row without rounds or usage; a retry runs it, unless only what failed is wanted."""
    runs = FakeRuns(odd_ones_fail)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1, gather=GatherRequest(policy="all")))
        await feed(service, "j", lines([2, 3, 4, 6]))
        await until_ended(service, "j")
        rows = await read(service, "j")
        assert [(row.ordinal, row.reason) for row in rows[2:]] == [(3, "cancelled"), (4, "cancelled")]
        assert rows[3] == JobLine(4, "in:6", "failed", "cancelled", error=NEVER_BEGUN, micro_dollars=0)
        runs.answer = instantly
        await service.retry("j", only_failed=only_failed)
        view = await until_ended(service, "j")
    assert view.done == (2 if only_failed else 4)
    assert len(runs.asked) == (3 if only_failed else 5)


async def test_rows_that_a_daemon_left_out_are_written_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that ends among thousands of rows leaves the rest; each input has one row at the end."""
    monkeypatch.setattr(losers, "TOGETHER", 10)
    store, closed, write = MemoryStore(), trio.Event(), losers._write

    async def held_up(writer: LineWriter, ended: list[Ended]) -> None:
        if service.view("j").failed > 30:
            await closed.wait()
        await write(writer, ended)

    monkeypatch.setattr(losers, "_write", held_up)
    async with serving(tmp_path, FakeRuns(odd_ones_fail), store=store) as service:
        await service.create(replace(REQUEST, workers=1, gather=GatherRequest(policy="all")))
        await feed(service, "j", lines(range(1, 2001)))
        await until(lambda: service.view("j").failed > 30)
        service.close(0)
        closed.set()
    assert service.view("j").phase == "interrupted"
    assert service.view("j").failed < 2000
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
        rows = await read(service, "j")
    assert (view.phase, view.failed, view.message) == ("failed", 2000, "an item failed: in:1: it went wrong")
    assert [row.ordinal for row in rows] == [*range(1, 2001)]
    assert not runs.asked


async def test_the_deadline_counts_on_while_no_daemon_is_there(tmp_path: Path) -> None:
    """A job goes on until its seconds are over by the clock on the wall, and those of a downtime are over too."""
    now = 1000.0

    async def third_waits(request: RunRequest) -> RunResult:
        if task(request) == 3:
            await trio.sleep_forever()
        return await instantly(request)

    store = MemoryStore()
    async with serving(tmp_path, FakeRuns(third_waits), store=store, wall=lambda: now) as service:
        await service.create(replace(REQUEST, gather=GatherRequest(policy="deadline", seconds=500.0, count=2)))
        await feed(service, "j", lines([1, 2, 3]))
        await until(lambda: service.view("j").done == 2)
        assert service.view("j").phase == "running"
    now = 1600.0
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store, wall=lambda: now) as service:
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.message) == ("done", 2, "after its 500 seconds 2 items are done")
    assert not runs.asked


async def test_a_deadline_closes_a_job_that_waits(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """Nothing has to end for a job to see that its time is over."""
    async with serving(tmp_path, wall=trio.current_time) as service:
        began = trio.current_time()
        await service.create(replace(REQUEST, gather=GatherRequest(policy="deadline", seconds=500.0, count=2)))
        await upload(service, "j", lines([1]))
        view = await _ended_at_last(service)
    assert (view.phase, view.done) == ("failed", 1)
    assert view.message == "after its 500 seconds 1 items are done, and 2 have to be"
    assert trio.current_time() - began == pytest.approx(500, abs=1)


async def _ended_at_last(service: JobService) -> JobView:
    return [view async for view in service.watch("j")][-1]
