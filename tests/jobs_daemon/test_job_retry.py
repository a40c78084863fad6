"""Only what failed is tried again: what was cancelled or never began stays as it is, also for the next daemon."""

from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs.errors import JobConflict
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    ended,
    feed,
    instantly,
    lines,
    never,
    serving,
    task,
    until,
    until_ended,
)


async def mixed(request: RunRequest) -> RunResult:
    """1 is done, 2 fails, the rest never ends."""
    if task(request) > 2:
        return await never(request)
    await trio.lowlevel.checkpoint()
    return ended(request, StopReason.TOOL_ERROR) if task(request) == 2 else ended(request)


async def test_only_what_failed_is_run_again_by_whichever_daemon(tmp_path: Path) -> None:
    """Of done, failed, cancelled and never begun items the failed one runs, also when its daemon ends on the way."""
    store, runs = MemoryStore(), FakeRuns(mixed)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(replace(REQUEST, workers=3))
        await feed(service, "j", lines(range(1, 9)))
        await until(lambda: (service.view("j").failed, runs.live) == (1, 3))
        with pytest.raises(JobConflict, match="is live"):
            await service.retry("j", only_failed=True)
        await service.cancel("j")
        view = await until_ended(service, "j")
        assert (view.done, view.failed, view.cancelled, view.received) == (1, 1, 3, 8)
        runs.answer = never
        await service.retry("j", only_failed=True)
        await until(lambda: runs.live == 1)
        assert runs.asked[-1].run == "j.2.2"
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
        assert [run.run for run in runs.asked] == ["j.2.2"]
        assert (view.phase, view.done, view.failed) == ("stopped", 2, 0)
        assert view.message == "only what had failed was run again; 6 inputs were left out"
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, len(runs.asked)) == ("done", 8, 7)


async def test_items_that_were_cancelled_one_by_one_have_not_failed(tmp_path: Path) -> None:
    """An item whose line says that it was cancelled is left alone, and one that went wrong is not."""

    async def one_is_cancelled(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        reasons = {1: StopReason.CANCELLED, 2: StopReason.TOOL_ERROR}
        return ended(request, reasons.get(task(request), StopReason.FINAL_ANSWER))

    runs = FakeRuns(one_is_cancelled)
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(1, 4)))
        await until_ended(service, "j")
        runs.answer = instantly
        await service.retry("j", only_failed=True)
        view = await until_ended(service, "j")
    assert runs.asked[3:] == [runs.asked[3]]
    assert (runs.asked[3].run, view.done, view.failures) == ("j.2.2", 2, {"cancelled": 1})
