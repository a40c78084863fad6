"""Bytes from a file, a pipe or a terminal, and the lines in them, without ever blocking the event loop.

Neither a file nor a line is ever held whole unless it is small: chunks are `CHUNK` bytes, and a line beyond its limit
is dropped as it is read and only its length is kept.
"""

import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import trio

CHUNK = 128 * 1024
"""Bytes asked for at once. One read of a file costs a thread's round trip, about 50 us."""


class Line(NamedTuple):
    """One line without its end. `offset` is where it begins in the stream, `length` its size in bytes, both from 0.

    `data` is None for a line longer than the limit. `end` is the offset behind the line and its line break.
    """

    number: int
    offset: int
    length: int
    end: int
    data: bytes | None


class ByteStream:
    """Reads one source in chunks. Use as `async with`; `path` None is standard input, which stays open.

    Raises `OSError` on opening and reading. A FIFO is opened without waiting for its writer.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._fd = -1
        self._pollable = True

    async def __aenter__(self) -> Self:
        if self._path is None:
            self._fd = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0
        else:
            # A FIFO would block here until somebody writes to it; regular files ignore the flag.
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def read(self) -> bytes:
        """The next bytes, empty at the end."""
        while self._pollable:
            try:
                await trio.lowlevel.wait_readable(self._fd)
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                continue
            except PermissionError:  # epoll takes no regular files; these never block for long
                self._pollable = False
        return await trio.to_thread.run_sync(os.read, self._fd, CHUNK)

    async def read_up_to(self, limit: int) -> bytes | None:
        """Everything that is left, or None if that is more than `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        while chunk := await self.read():
            size += len(chunk)
            if size > limit:
                return None
            parts.append(chunk)
        return b"".join(parts)

    async def lines(self, limit: int) -> AsyncGenerator[Line, None]:
        """The stream's lines, split at `\\n` with a `\\r` before it dropped; the last one needs no line break."""
        number, offset = 1, 0
        kept: list[bytes] = []
        size = 0
        while chunk := await self.read():
            start = 0
            while (stop := chunk.find(b"\n", start)) >= 0:
                size += stop - start
                if size <= limit:
                    kept.append(chunk[start:stop])
                yield _line(number, offset, size, 1, kept, limit)
                number, offset = number + 1, offset + size + 1
                kept, size = [], 0
                start = stop + 1
            size += len(chunk) - start
            if size <= limit:
                kept.append(chunk[start:])
            else:
                kept = []
        if size:
            yield _line(number, offset, size, 0, kept, limit)


def _line(number: int, offset: int, size: int, line_break: int, kept: list[bytes], limit: int) -> Line:
    end = offset + size + line_break
    if size > limit:
        return Line(number, offset, size, end, None)
    return Line(number, offset, size, end, b"".join(kept).removesuffix(b"\r"))
