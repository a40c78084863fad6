"""A process with a job service that a test kills, over a real store; its runs end durably, as those of a store do.

python -m tests.jobs_daemon.killed_daemon DATA_DIR NOTES ITEMS

Makes the job, or goes on with it. A run writes a line on NOTES when it has ended; one that is on it has ended.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from agents.result import RunResult
from orchestrator.jobs.service import JobService
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, ended, lines, serving, task, until_ended, upload


class NotedRuns(FakeRuns):
    """Runs that take a moment, and that nobody runs again once they are noted on a file."""

    def __init__(self, notes: Path) -> None:
        super().__init__(self._briefly)
        self._fd = os.open(notes, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.known = set(notes.read_text().split())

    async def _briefly(self, request: RunRequest) -> RunResult:
        if request.run not in self.known:
            await trio.sleep(0.001 * (task(request) % 5))
            self.known.add(request.run)
            os.write(self._fd, f"{request.run}\n".encode())
        return ended(request)


async def work(data_dir: Path, notes: Path, items: int, then: Callable[[JobService], Awaitable[None]]) -> None:
    """Works at the job to its end, whatever was done of it before."""
    async with (
        open_sqlite(data_dir / "store.db") as store,
        serving(data_dir, NotedRuns(notes), store=store) as service,
    ):
        if not service.list().jobs:
            await service.create(REQUEST)
        view = service.view("j")
        if not view.complete:
            if view.received < items:
                await upload(service, "j", lines(range(view.received + 1, items + 1)))
            await service.complete("j")
        await until_ended(service, "j")
        await then(service)


async def _nothing(service: JobService) -> None:
    await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    data = Path(sys.argv[1])
    data.mkdir(exist_ok=True)
    trio.run(work, data, Path(sys.argv[2]), int(sys.argv[3]), _nothing)
