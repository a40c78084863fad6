"""`results.jsonl` as a projection of a job's log: the lines of its `item_finished` events, byte for byte, in order.

The file is always behind the log, never before it, and a line is never in it twice. So after a crash it is a beginning
of what it should be, perhaps with a torn tail or, after a loss of power, with pages that never reached the disk. Here
it is held against the log and mended from the first byte that differs. A reader that has read up to some byte
finds the rest behind that byte, whatever happened in between.

Everything here blocks, and is meant for a thread.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestrator.jobs.lines import BLOCK
from orchestrator.jobs.outputs import OutputError
from orchestrator.jobs.record import JobLine


class Projection:
    """Holds a file against what it should be, piece by piece from its beginning. Raises `OSError`.

    `size` is how far it is right, `mended` how many bytes had to be written, `wrong` whether others were there instead.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self.mended = 0
        self.wrong = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Gives the file back. May be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def expect(self, data: bytes) -> None:
        """The file goes on with these bytes, or does afterwards."""
        found = os.pread(self._fd, len(data), self.size)
        if found != data:
            if not data.startswith(found):
                self.wrong = True
                os.ftruncate(self._fd, self.size)
            view = memoryview(data)
            at = self.size
            while view:
                written = os.pwrite(self._fd, view, at)
                view, at = view[written:], at + written
            self.mended += len(data)
        self.size += len(data)

    def end(self) -> None:
        """Nothing is behind what was expected; all of it is on the disk afterwards."""
        if os.fstat(self._fd).st_size > self.size:
            os.ftruncate(self._fd, self.size)
        os.fsync(self._fd)

    def beyond(self) -> bool:
        """Whether there is more than was expected."""
        return os.fstat(self._fd).st_size > self.size

    def __repr__(self) -> str:
        return f"<Projection {self.size} bytes, {self.mended} mended{', wrong' * self.wrong}>"


class FoundLines(Struct, frozen=True):
    """Usable lines of a results file with their bytes, where they end, and how many others were among them."""

    lines: tuple[tuple[JobLine, bytes], ...]
    end: int
    unusable: int


def find_lines(path: Path, start: int, most: int) -> FoundLines:
    """About a block of whole lines from a byte on; none at the end. `most` is the highest ordinal there can be.

    Raises `OSError`.
    """
    decoder = msgspec.json.Decoder(JobLine)
    found: list[tuple[JobLine, bytes]] = []
    end, unusable = start, 0
    with path.open("rb") as file:
        file.seek(start)
        while end - start < BLOCK:
            data = file.readline()
            if not data.endswith(b"\n"):
                break
            end += len(data)
            try:
                line = decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                unusable += 1
                continue
            if 1 <= line.ordinal <= most:
                found.append((line, data[:-1]))
            else:
                unusable += 1
    return FoundLines(tuple(found), end, unusable)


class ResultFile:
    """The results file of a live job, written in the order of the log, from the byte `at` on.

    A line goes into the page cache, which does not block, and to the place that the log gives it: a daemon that was
    stopped, and wakes when another one has gone on, writes what is there already. Behind one that could not be written
    no other is, or the file would no longer be a beginning of what it should be.
    """

    __slots__ = ("_at", "_broken", "_fd", "_path")

    def __init__(self, fd: int, path: Path, at: int) -> None:
        self._fd = fd
        self._path = path
        self._at = at
        self._broken = False

    def append(self, data: bytes) -> None:
        """Raises `OutputError`, from then on at every call."""
        if self._broken:
            raise OutputError(f"{self._path}: it can no longer be written")
        end = self._at
        try:
            while data:
                written = os.pwrite(self._fd, data, end)
                data, end = data[written:], end + written
        except OSError as error:
            self._broken = True
            self._cut(end)
            raise OutputError(f"{self._path}: {(error.strerror or str(error)).lower()}") from error
        self._at = end

    def _cut(self, end: int) -> None:
        """Takes the beginning of a line away, unless more is behind it."""
        with suppress(OSError):
            if os.fstat(self._fd).st_size == end:
                os.ftruncate(self._fd, self._at)
