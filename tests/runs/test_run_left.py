"""What becomes of runs when everything around them is cancelled at once: in a store that lasts they are left open."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from agents.events import (
    CancelRequested,
    Event,
    ModelFailed,
    ModelRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolStarted,
    decode,
)
from agents.scripted import Script, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.jobs.service import JobService
from orchestrator.runs.service import RunsConfig, RunService
from orchestrator.store.base import RunQuery, Store
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.jobs import JobRequest
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.jobs_daemon.fake_runs import feed, lines, until, until_ended
from tests.runs.running import CATALOGUE, ScriptedModels

LONG = 1000.0
PATIENCE = 30.0


class Held:
    """Tools that work until they are let, and how many of them do."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.working = 0

    async def work(self) -> str:
        self.working += 1
        try:
            await self.go.wait()
        finally:
            self.working -= 1
        return "worked"


class Daemon:
    """Runs and jobs over one store, in a nursery that may be cancelled as a whole."""

    def __init__(self, nursery: trio.Nursery, store: Store, folder: Path, script: Script, latency: float, live: int):
        self.held = Held()
        held = self.held

        @tool(read_only=True)
        async def read() -> str:
            """Reads."""
            return await held.work()

        @tool()
        async def write() -> str:
            """Writes."""
            return await held.work()

        agents = {"worker": AgentSpec(name="worker", model="scripted", tools=(read, write))}
        catalogue = replace(CATALOGUE, agents=agents)
        self.nursery = nursery
        self.models = ScriptedModels(script, latency)
        self.runs = RunService(
            nursery,
            models=self.models,
            catalogue=lambda: catalogue,
            store=store,
            config=RunsConfig(max_live=live),
        )
        self.jobs = JobService(nursery, folder, runs=self.runs, catalogue=lambda: catalogue, store=store)

    async def start(self, run: str) -> None:
        await self.runs.start(RunRequest(task="x", who=WORKER, run=run))

    def count(self, state: str) -> int:
        return self.runs.statistics().states.get(state, 0)


WORKER = AgentChoice(agent="worker")
DONE = in_turn(say("done"))


@asynccontextmanager
async def daemon(
    folder: Path, script: Script = DONE, *, latency: float = 0.0, live: int = 100
) -> AsyncIterator[tuple[Daemon, Store]]:
    with trio.fail_after(PATIENCE):
        async with open_sqlite(folder / "store.db") as store, trio.open_nursery() as nursery:
            made = Daemon(nursery, store, folder, script, latency, live)
            await made.runs.recover()
            await made.jobs.open()
            await made.runs.resume_rest(made.jobs.going_on)
            yield made, store
            nursery.cancel_scope.cancel()


async def log(store: Store, session: str) -> list[Event]:
    return [decode(record.data) for record in await store.read(session)]


def kinds(events: Sequence[Event], *which: type[Any]) -> list[str]:
    return [type(event).__name__ for event in events if isinstance(event, which)]


async def left_open(folder: Path, *runs: str) -> dict[str, list[Event]]:
    """The runs' logs: none of them has an end, or a word of a cancellation."""
    async with open_sqlite(folder / "store.db") as store:
        rows = (await store.runs(RunQuery(open=True))).rows
        assert {row.run for row in rows} == set(runs)
        logs = {run: await log(store, run) for run in runs}
    for events in logs.values():
        assert not kinds(events, RunEnded, CancelRequested)
    return logs


async def test_in_a_model_call_a_run_is_left(tmp_path: Path) -> None:
    """What the call had reserved is unknown, at once, and the next service asks again and ends the run."""
    async with daemon(tmp_path, latency=LONG) as (first, _):
        await first.start("r")
        await until(lambda: first.count("waiting_model") == 1)
        first.nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
    events = (await left_open(tmp_path, "r"))["r"]
    assert kinds(events, ModelRequested, ModelFailed) == ["ModelRequested", "ModelFailed"]
    async with daemon(tmp_path) as (second, _):
        detail = await second.runs.wait("r")
        assert (detail.reason, detail.answer, detail.unknown_tokens > 0) == ("final_answer", "done", True)


@pytest.mark.parametrize(("name", "starts"), [("read", 2), ("write", 1)])
async def test_in_a_tool_a_run_is_left(name: str, starts: int, tmp_path: Path) -> None:
    """A call that may be made again stays open and is made again; of another one the model is told that its effect is
    not known.
    """
    script = in_turn(ask(name, {}), say("done"))
    async with daemon(tmp_path, script) as (first, _):
        await first.start("r")
        await until(lambda: first.held.working == 1)
        first.nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
    events = (await left_open(tmp_path, "r"))["r"]
    assert kinds(events, ToolStarted, ToolFinished) == ["ToolStarted"] + ["ToolFinished"] * (starts == 1)
    async with daemon(tmp_path, script) as (second, store):
        second.held.go.set()
        detail = await second.runs.wait("r")
        events = await log(store, "r")
    assert (detail.reason, detail.tool_calls) == ("final_answer", 1)
    assert len(kinds(events, ToolStarted)) == starts
    assert detail.unknown_effects == (() if starts == 2 else ("r/1/0",))


async def test_queued_runs_are_left(tmp_path: Path) -> None:
    """Runs that never had a place are as they were created, and begin with the next service."""
    async with daemon(tmp_path, latency=LONG, live=1) as (first, _):
        for run in ("a", "b", "c"):
            await first.start(run)
        await until(lambda: first.count("queued") == 2)
        first.nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
    logs = await left_open(tmp_path, "a", "b", "c")
    assert sorted(len(kinds(events, RunStarted)) for events in logs.values()) == [0, 0, 1]
    async with daemon(tmp_path) as (second, _):
        for run in ("a", "b", "c"):
            assert (await second.runs.wait(run)).reason == "final_answer"


@pytest.mark.parametrize("waits", ["model", "tool"])
async def test_a_jobs_runs_are_left_with_their_job(waits: str, tmp_path: Path) -> None:
    """The whole nursery is cancelled: the job is interrupted, its runs are open, and both go on."""
    script = in_turn(ask("read", {}), say("done")) if waits == "tool" else in_turn(say("done"))
    request = JobRequest(prompt="say {text}", job="j", workers=3, who=WORKER)
    async with daemon(tmp_path, script, latency=LONG if waits == "model" else 0.0) as (first, _):
        await first.jobs.create(request)
        await feed(first.jobs, "j", lines(range(1, 6)))
        await until(lambda: first.count("waiting_model" if waits == "model" else "waiting_tool") == 3)
        first.nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
    await left_open(tmp_path, "j.1", "j.2", "j.3")
    async with daemon(tmp_path, script) as (second, store):
        second.held.go.set()
        view = await until_ended(second.jobs, "j")
        assert (view.phase, view.done, view.failed) == ("done", 5, 0)
        assert kinds(await log(store, "j.2"), RunResumed, RunEnded) == ["RunResumed", "RunEnded"]


async def test_a_cancelled_job_takes_its_runs_away(tmp_path: Path) -> None:
    """To cancel a job is to cancel its runs, for good, in a store that lasts as in any other."""
    request = JobRequest(prompt="say {text}", job="j", workers=3, who=WORKER)
    async with daemon(tmp_path, latency=LONG) as (first, store):
        await first.jobs.create(request)
        await feed(first.jobs, "j", lines(range(1, 6)))
        await until(lambda: first.count("waiting_model") == 3)
        await first.jobs.cancel("j")
        view = await until_ended(first.jobs, "j")
        assert (view.phase, view.cancelled) == ("cancelled", 3)
        assert (await store.states()) == {"cancelled": 3}


async def test_failing_fast_takes_the_other_runs_away(tmp_path: Path) -> None:
    """The first failure ends the runs beside it, for good."""
    request = JobRequest(prompt="say {text}", job="j", workers=3, who=WORKER, fail_fast=True)
    async with daemon(tmp_path, in_turn(ask("read", {}), say("done"))) as (first, store):
        await first.jobs.create(request)
        await feed(first.jobs, "j", lines(range(1, 6)))
        await until(lambda: first.held.working == 3)
        await first.runs.cancel("j.2", "interrupted")
        view = await until_ended(first.jobs, "j")
        assert (view.phase, view.failed, view.cancelled) == ("failed", 1, 2)
        assert (await store.states()) == {"cancelled": 3}
