"""Memory does not grow with a job's inputs."""

import gc
import os
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.result import RunResult
from orchestrator.jobs import tail as job_tail
from orchestrator.store.base import Batch
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, ended, lines, serving, until, until_ended, upload


class ForgetfulStore(MemoryStore):
    """A store that counts what is appended and keeps nothing of it."""

    async def append(self, batch: Batch, generation: int) -> int:
        await trio.lowlevel.checkpoint()
        return batch.after + len(batch.records)


class Forgetful(FakeRuns):
    """Runs that leave nothing behind."""

    async def run_to_end(self, request: RunRequest, **_: Any) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request)


async def test_memory_stays_flat_however_many_inputs_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the inputs cost next to no more memory: a byte for each, not a line, a result or a run."""

    async def held(job: str, count: int) -> int:
        await service.create(msgspec.structs.replace(REQUEST, job=job, workers=8, ordered=True))
        gc.collect()
        before, most = tracemalloc.get_traced_memory()[0], 0
        for start in range(0, count, 250):
            await upload(service, job, lines(range(start, start + 250)))
            await until(lambda start=start: service.view(job).done > start + 125)
            gc.collect()
            most = max(most, tracemalloc.get_traced_memory()[0] - before)
        await service.complete(job)
        assert (await until_ended(service, job)).done == count
        return most

    monkeypatch.setattr(job_tail, "BLOCK", 8192)  # so that a small job reads several
    async with serving(tmp_path, Forgetful(), store=ForgetfulStore()) as service:
        tracemalloc.start()
        try:
            await held("warm", 250)
            small, large = await held("small", 750), await held("large", 3000)
        finally:
            tracemalloc.stop()
    assert large < small + 50_000


async def test_inputs_that_vanish_under_a_job_end_it_with_a_message(tmp_path: Path) -> None:
    """A file that somebody has cut short ends the job as failed, and says so."""
    go = trio.Event()

    async def held(request: RunRequest) -> RunResult:
        await go.wait()
        return ended(request)

    async with serving(tmp_path, FakeRuns(held)) as service:
        await service.create(msgspec.structs.replace(REQUEST, workers=1))
        data = lines(range(8000))
        await upload(service, "j", data)
        os.truncate(tmp_path / "jobs" / "j" / "inputs.jsonl", 10)
        await service.complete("j")
        go.set()
        view = await until_ended(service, "j")
        assert view.phase == "failed"
        assert view.message == "the job's inputs cannot be read: the file is shorter than it was"
