"""Where a job's results go: JSON Lines on a file, a pipe or a terminal, and never a torn line.

A regular file takes a line in one write, which ends in the page cache and does not block; if the disk is full the file
is cut back to its last whole line. A pipe or a terminal may block for as long as its reader likes, so those writes are
made in a thread: the job's workers wait (a slow reader slows the job), the event loop does not. A write that has begun
is not cancelled, except by `hurry`.
"""

import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agents.errors import HeadraceError


class OutputError(HeadraceError):
    """The results cannot be written; the message names the output."""


class ResultWriter:
    """Writes whole lines to a file descriptor, one at a time. Made by `open_output`."""

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self.lines = 0
        self._fd = fd
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._turn = trio.Lock()
        self._writing = trio.CancelScope()
        self._broken = False

    def __repr__(self) -> str:
        return f"<ResultWriter {self.name}, {self.lines} lines{', broken' if self._broken else ''}>"

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._fd)

    async def write(self, line: bytes) -> None:
        """Writes one line, which must end in `\\n`. Raises `OutputError`, from then on at every call."""
        if self._broken:
            raise OutputError(f"{self.name}: it can no longer be written")
        try:
            if self._regular:
                write_whole(self._fd, line)
                await trio.lowlevel.checkpoint()
            else:
                await self._write_shielded(line)
        except OSError as error:
            self._broken = True
            raise OutputError(f"{self.name}: {_reason(error)}") from error
        self.lines += 1

    def hurry(self) -> None:
        """Gives up a write that its reader keeps waiting; the line may be torn for that reader."""
        self._broken = True
        self._writing.cancel()

    async def _write_shielded(self, line: bytes) -> None:
        with trio.CancelScope(shield=True) as scope:
            async with self._turn:
                self._writing = scope
                await trio.to_thread.run_sync(_write_all, self._fd, line, abandon_on_cancel=True)
        if scope.cancelled_caught:
            raise OutputError(f"{self.name}: its reader took nothing any more")


@asynccontextmanager
async def open_output(path: Path | None, *, overwrite: bool = False) -> AsyncGenerator[ResultWriter, None]:
    """Opens the output; `path` None is standard output. Raises `OutputError`, also for a file that has content.

    Results cost money, so a file that holds some is not emptied unless `overwrite` says so.
    """
    if path is None:
        stdout = sys.__stdout__
        yield ResultWriter(1 if stdout is None else stdout.fileno(), "stdout")
        return
    try:
        if not overwrite and _has_content(path):
            raise OutputError(f"{path}: the file has content already; choose another name or give --overwrite")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise OutputError(f"{path}: {_reason(error)}") from error
    try:
        yield ResultWriter(fd, str(path))
    finally:
        os.close(fd)


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def write_whole(fd: int, line: bytes) -> None:
    """Appends a line to a regular file, all of it or nothing. Raises `OSError`."""
    written = 0
    try:
        while written < len(line):
            written += os.write(fd, line[written:])
    except OSError:
        if written:
            os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR) - written)
        raise


def _write_all(fd: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(fd, view) :]


def _reason(error: OSError) -> str:
    if isinstance(error, BrokenPipeError):
        return "its reader is gone"
    if isinstance(error, FileNotFoundError):
        return "no such folder"
    return (error.strerror or str(error)).lower()
