"""A process with runs and jobs that a test kills, over a real store, at work on a planned job with a quorum.

python -m tests.jobs_daemon.killed_stages DATA_DIR NOTES

Makes the job, or goes on with it. Each call of the model that is answered leaves a line with its run on NOTES. The plan
has to be repaired, every third worker fails, and the slowest ones never answer.
"""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from agents.amounts import Limits
from agents.errors import Refused
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.port import Flow, ModelPort, Models, Priority
from orchestrator.jobs.service import JobService
from orchestrator.runs.service import RunService
from orchestrator.store.base import Store
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.jobs import GatherRequest, JobRequest, PlannerRequest, SynthesisRequest
from tests.jobs_daemon.fake_runs import CATALOGUE, until_ended

SUBTASKS = 24
QUORUM = 12
SLOW = 20
"""Subtasks from this one on are never answered."""

REQUEST = JobRequest(
    job="j",
    prompt="do {text}",
    workers=16,
    budget=Limits(tokens=100_000_000),
    planner=PlannerRequest(task="plan it", most=SUBTASKS),
    gather=GatherRequest(policy="quorum", count=QUORUM),
    synthesis=SynthesisRequest(prompt="sum up {results}"),
)


class NotedModel:
    """Answers by the run's id, and notes that it has."""

    def __init__(self, notes: Path) -> None:
        self._fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return _Port(self._fd, flow.run.removeprefix("j."))

    def ended(self, flow: Flow) -> None:
        pass


class _Port:
    def __init__(self, notes: int, run: str) -> None:
        self._notes = notes
        self._run = run

    async def call(self, request: ModelRequest, **_: Any) -> ModelReply:
        answer = await self._answer()
        os.write(self._notes, f"{self._run}\n".encode())
        return ModelReply(Message("assistant", answer), "stop", Usage(10, output=5))

    async def _answer(self) -> str:
        await trio.sleep(0.004)
        match self._run:
            case "plan":
                return "1. do this"
            case "plan-repair":
                return msgspec.json.encode([{"text": str(n)} for n in range(1, SUBTASKS + 1)]).decode()
            case "synthesis":
                return "the answer"
        number = int(self._run)
        if number >= SLOW:
            await trio.sleep_forever()
        await trio.sleep(0.002 * number)
        if number % 3 == 0:
            raise Refused("too hard", status=400, code=f"hard-{number}")  # one code in a row would stop the job
        return f"{number} is done"


@asynccontextmanager
async def daemon(
    data: Path, notes: Path, request: JobRequest = REQUEST, models: Callable[[Path], Models] = NotedModel
) -> AsyncGenerator[tuple[JobService, Store], None]:
    """Runs and jobs as a daemon starts them."""
    model = models(notes)
    async with open_sqlite(data / "store.db") as store, trio.open_nursery() as nursery:
        runs = RunService(nursery, models=model, catalogue=lambda: CATALOGUE, store=store)
        jobs = JobService(nursery, data, runs=runs, catalogue=lambda: CATALOGUE, store=store)
        await runs.recover()
        await jobs.open()
        await runs.resume_rest(jobs.going_on)
        if not jobs.list().jobs:
            await jobs.create(request)
        yield jobs, store
        jobs.close()
        runs.close()
        await runs.end_all()
        await jobs.all_ended()


async def work(data: Path, notes: Path) -> None:
    """Works at the job to its end."""
    async with daemon(data, notes) as (jobs, _):
        await until_ended(jobs, "j")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    trio.run(work, folder, Path(sys.argv[2]))
