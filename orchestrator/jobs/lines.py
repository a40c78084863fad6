"""Lines of a job's files, counted and scanned. Pure, or plain blocking reads meant for a thread."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from orchestrator.jobs.record import JobLine
from orchestrator.jobs.table import ResultTable

BLOCK = 128 * 1024
"""Bytes read at once: a thread's round trip (about 60 us) for a thousand short lines."""


class InputState(Struct, frozen=True):
    """How far the inputs go: bytes, whole lines that are not blank, and whether something follows the last of them."""

    size: int = 0
    lines: int = 0
    torn: bool = False


NO_INPUTS = InputState()


class LineCounter:
    """Counts lines that are not blank, however the bytes are cut into chunks."""

    __slots__ = ("_begun", "_lines", "_size")

    def __init__(self, state: InputState = NO_INPUTS) -> None:
        self._size = state.size
        self._lines = state.lines
        self._begun = state.torn

    def feed(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._size += len(data)
        self._begun = self._begun or not _is_blank(first)
        for piece in others:
            self._lines += self._begun
            self._begun = not _is_blank(piece)

    @property
    def state(self) -> InputState:
        return InputState(self._size, self._lines, self._begun)


def _is_blank(piece: bytes) -> bool:
    return not piece or piece.isspace()


def count_inputs(path: Path) -> InputState:
    """Reads a whole file of inputs, and makes sure that it is on disk. Raises `OSError`."""
    counter = LineCounter()
    with path.open("rb", buffering=0) as file:
        while data := file.read(BLOCK):
            counter.feed(data)
        os.fsync(file.fileno())
    return counter.state


def cut_torn_tail(path: Path) -> int:
    """Cuts a file back to its last line break, and answers its size. Raises `OSError`."""
    with path.open("r+b", buffering=0) as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            file.truncate(end)
        return end


def read_table(path: Path, most: int, since: int) -> tuple[ResultTable, int]:
    """The table of a results file, and how many of its lines say nothing usable. Raises `OSError`.

    `most` is the highest ordinal there can be, `since` the attempt from which spending is counted.
    """
    table, unusable = ResultTable(since), 0
    decoder = msgspec.json.Decoder(JobLine)
    with path.open("rb") as file:
        for data in file:
            try:
                line = decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                unusable += 1
                continue
            if 1 <= line.ordinal <= most:
                table.add(line)
            else:
                unusable += 1
    return table, unusable
