"""Jobs over the real run service and a real store: drained in the middle, and gone on with by the next daemon."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from agents.amounts import Limits
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.port import Flow, ModelPort, Priority
from orchestrator.jobs.service import JobService
from orchestrator.runs.service import RunService
from orchestrator.store.base import RunQuery, Store
from orchestrator.store.sqlite import open_sqlite
from tests.jobs_daemon.fake_runs import CATALOGUE, PATIENCE, REQUEST, feed, lines, read, until, until_ended

replace = msgspec.structs.replace
ITEMS = 24
QUICK = 9


class Model:
    """Answers at once for the first few runs, and for the others when `go` is set; counts its calls by run."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.go = trio.Event()
        self.waiting = 0

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return _Port(self, flow.run)

    def ended(self, flow: Flow) -> None:
        pass


class _Port:
    def __init__(self, model: Model, run: str) -> None:
        self._model = model
        self._run = run

    async def call(self, request: ModelRequest, **_: Any) -> ModelReply:
        model = self._model
        model.calls[self._run] += 1
        await trio.lowlevel.checkpoint()
        if int(self._run.split(".")[1]) > QUICK:
            model.waiting += 1
            try:
                await model.go.wait()
            finally:
                model.waiting -= 1
        return ModelReply(Message("assistant", f"answer of {self._run}"), "stop", Usage(10, output=5))


@asynccontextmanager
async def daemon(data: Path, store: Store, model: Model) -> AsyncGenerator[tuple[RunService, JobService], None]:
    """Runs and jobs as a daemon starts and drains them."""
    catalogue: Callable[[], Any] = lambda: CATALOGUE  # noqa: E731
    async with trio.open_nursery() as nursery:
        runs = RunService(nursery, models=model, catalogue=catalogue, store=store)
        jobs = JobService(nursery, data, runs=runs, catalogue=catalogue, store=store)
        await runs.recover()
        await jobs.open()
        await runs.resume_rest(jobs.going_on)
        try:
            yield runs, jobs
        finally:
            with trio.fail_after(PATIENCE):
                jobs.close()
                runs.close()
                await runs.end_all()
                jobs.hurry()
                await jobs.all_ended()


async def test_runs_that_a_drain_left_open_go_on_with_their_job(tmp_path: Path) -> None:
    """The next daemon goes on with the runs under way, under their own names, and begins the others."""
    async with open_sqlite(tmp_path / "store.db") as store:
        model = Model()
        async with daemon(tmp_path, store, model) as (_, jobs):
            await jobs.create(replace(REQUEST, workers=4, budget=Limits(rounds=1000)))
            await feed(jobs, "j", lines(range(1, ITEMS + 1)))
            await until(lambda: model.waiting == 4 and jobs.view("j").done == QUICK)
        view = jobs.view("j")
        assert (view.phase, view.done, view.failed, view.cancelled) == ("interrupted", QUICK, 0, 4)
        left = await store.runs(RunQuery(job="j", open=True))
        assert sorted(row.run for row in left.rows) == ["j.10", "j.11", "j.12", "j.13"]
    async with open_sqlite(tmp_path / "store.db") as store:
        again = Model()
        again.go.set()
        async with daemon(tmp_path, store, again) as (_, jobs):
            view = await until_ended(jobs, "j")
            assert (view.phase, view.done, view.failed) == ("done", ITEMS, 0)
            results = await read(jobs, "j")
        assert Counter(line.ordinal for line in results) == Counter(range(1, ITEMS + 1))
        assert {line.ordinal: line.value for line in results} == {n: f"answer of j.{n}" for n in range(1, ITEMS + 1)}
        assert again.calls == Counter(f"j.{n}" for n in range(QUICK + 1, ITEMS + 1))
        assert (await store.runs(RunQuery(job="j", open=True))).total == 0
        assert (await store.runs(RunQuery(job="j"))).total == ITEMS


async def test_runs_that_ended_without_their_job_are_answered(tmp_path: Path) -> None:
    """Where a run has ended and its item's event got lost, the result is that in the run's log."""
    async with open_sqlite(tmp_path / "store.db") as store:
        model = Model()
        async with daemon(tmp_path, store, model) as (_, jobs):
            await jobs.create(replace(REQUEST, workers=2, ordered=True))
            await feed(jobs, "j", lines([1, 2]))
            await until_ended(jobs, "j")
            first = await read(jobs, "j")
    async with open_sqlite(tmp_path / "other.db") as lost, open_sqlite(tmp_path / "store.db") as store:
        (tmp_path / "jobs" / "j" / "results.jsonl").write_bytes(b"")
        record = tmp_path / "jobs" / "j" / "job.json"
        text = record.read_bytes().replace(b'"phase": "done"', b'"phase": "running"')
        record.write_bytes(text)
        again = Model()
        async with trio.open_nursery() as nursery:
            runs = RunService(nursery, models=again, catalogue=lambda: CATALOGUE, store=store)
            jobs = JobService(nursery, tmp_path, runs=runs, catalogue=lambda: CATALOGUE, store=lost)
            await runs.recover()
            await jobs.open()
            view = await until_ended(jobs, "j")
            assert (view.phase, view.done) == ("done", 2)
            strip = [replace(line, seconds=0.0) for line in await read(jobs, "j")]
            await runs.end_all()
        assert strip == [replace(line, seconds=0.0) for line in first]
        assert again.calls == Counter()
