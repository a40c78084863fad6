"""A process with a job service that a test kills: it runs each item for a moment and notes on a file that it did.

python -m tests.jobs_daemon.killed_daemon DATA_DIR NOTES ITEMS
"""

import os
import sys
from pathlib import Path

import trio

from agents.result import RunResult
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, ended, feed, lines, serving, task, until_ended


async def main(data_dir: Path, notes: Path, items: int) -> None:
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def briefly(request: RunRequest) -> RunResult:
        await trio.sleep(0.001 * (task(request) % 5))
        os.write(fd, f"{request.run}\n".encode())
        return ended(request)

    async with serving(data_dir, FakeRuns(briefly)) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(1, items + 1)))
        await until_ended(service, "j")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
