"""A job's results on disk: lines appended as items end, and read by any number of clients while more are written.

A line is in the page cache before it counts, is shown or is read by anybody, so killing the process loses nothing that
a client has seen. Each reader has its own file descriptor and one block, so a slow one costs nobody else anything.
"""

import os
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from orchestrator.jobs.files import storage_error
from orchestrator.jobs.lines import BLOCK
from orchestrator.jobs.signal import Signal

T = TypeVar("T")

FOLLOW_SECONDS: Final = 0.05
"""How long new lines are gathered before a reader that follows looks again."""


class ResultView:
    """How far a job's results go, for its readers. `live` says whether more may come."""

    __slots__ = ("changed", "live", "path", "size")

    def __init__(self, path: Path, size: int, changed: Signal) -> None:
        self.path = path
        self.size = size
        self.changed = changed
        self.live = False


async def read_results(
    results: ResultView, offset: int, *, follow: bool, limiter: trio.CapacityLimiter | None = None
) -> AsyncGenerator[bytes, None]:
    """The results from a byte offset on, in pieces that end with a line. Raises `JobStorageError`.

    With `follow` it goes on until the job has ended.
    """
    fd = await _thread(results.path, limiter, partial(os.open, results.path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        while True:
            version, end, last = results.changed.version, results.size, not (follow and results.live)
            while offset < end:
                piece = await _thread(results.path, limiter, partial(_whole_lines, fd, offset, end))
                offset += len(piece)
                yield piece
            if last:
                return
            await results.changed.beyond(version)
            await trio.sleep(FOLLOW_SECONDS)
    finally:
        os.close(fd)


def _whole_lines(fd: int, offset: int, end: int) -> bytes:
    """About a block from `offset`, which ends with a line; `end` is where some line does."""
    data = b""
    while True:
        more = os.pread(fd, min(BLOCK, end - offset - len(data)), offset + len(data))
        if not more:
            raise OSError("the file is shorter than it was")
        data += more
        last = data.rfind(b"\n", len(data) - len(more))
        if last >= 0:
            return data[: last + 1]


async def _thread(path: Path, limiter: trio.CapacityLimiter | None, work: Callable[[], T]) -> T:
    try:
        return await trio.to_thread.run_sync(work, limiter=limiter)
    except OSError as error:
        raise storage_error(path, "cannot be read", error) from error
