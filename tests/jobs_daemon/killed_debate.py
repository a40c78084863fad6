"""A process with runs and jobs that a test kills, over a real store, at work on a debate.

python -m tests.jobs_daemon.killed_debate DATA_DIR NOTES

Makes the job, or goes on with it. Each call of the model that is answered leaves a line on NOTES.
"""

import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import trio

from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.port import Flow, ModelPort, Priority
from orchestrator.jobs.service import JobService
from orchestrator.store.base import Store
from tests.jobs_daemon.debaters import REQUEST, answer
from tests.jobs_daemon.fake_runs import until_ended
from tests.jobs_daemon.killed_stages import daemon


class NotedDebaters:
    """Answers by what is asked, and notes that it has."""

    def __init__(self, notes: Path) -> None:
        self._fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return self

    def ended(self, flow: Flow) -> None:
        pass

    async def call(self, request: ModelRequest, **_: Any) -> ModelReply:
        await trio.sleep(0.01)
        os.write(self._fd, b"called\n")
        return ModelReply(Message("assistant", answer(request.messages[-1].content)), "stop", Usage(10, output=5))


def debating(data: Path, notes: Path) -> AbstractAsyncContextManager[tuple[JobService, Store]]:
    """Runs and jobs as a daemon starts them, and the debate."""
    return daemon(data, notes, REQUEST, NotedDebaters)


async def work(data: Path, notes: Path) -> None:
    """Works at the debate to its end."""
    async with debating(data, notes) as (jobs, _):
        await until_ended(jobs, "j")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    trio.run(work, folder, Path(sys.argv[2]))
