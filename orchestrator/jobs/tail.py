"""A job's items, read from its inputs file while that is still being uploaded.

A block is read when workers have used up the one before, so memory does not grow with the inputs. At the end of what is
durable the reader waits to be woken by the next sync, and ends when the inputs are complete.

A line that cannot be used is an item all the same, a failed one: an upload of a hundred thousand inputs is not refused
because of one, and the result says which it was and what was wrong with it. Blank lines are no items.
"""

import hashlib
import os
from collections.abc import Callable
from typing import Final, Self

import msgspec
import trio

from orchestrator.jobs.files import reason
from orchestrator.jobs.inputs import MAX_ITEM_BYTES, Item, Unreadable
from orchestrator.jobs.lines import BLOCK
from orchestrator.jobs.spool import InputSpool
from orchestrator.views.jobs import InputLine

MAX_LINE_BYTES: Final = 2 * MAX_ITEM_BYTES + 64 * 1024
"""An item of the greatest size still fits when all of it is escaped for JSON, and its origin beside it."""

_TOO_LONG: Final = f"longer than {MAX_LINE_BYTES // 1024 // 1024} MiB, which is more than one item may have"


class InputTail:
    """An iterator of items; those whose ordinal `skip` says are over already are left out.

    Items are handed out with their position, from 1 without gaps, in place of their ordinal, which is what a job's
    ordering window counts by; `ordinal` and `digest` translate until `forget`. `taken` counts them. `problem` says why
    the iteration ended, if it was not the inputs' end.
    """

    def __init__(
        self,
        fd: int,
        spool: InputSpool,
        skip: Callable[[int], bool] = lambda _: False,
        *,
        limiter: trio.CapacityLimiter | None = None,
    ) -> None:
        self.taken = 0
        self.problem = ""
        self._fd = fd
        self._spool = spool
        self._skip = skip
        self._limiter = limiter
        self._decoder = msgspec.json.Decoder(InputLine)
        self._position = 0
        self._line = 0
        self._ordinal = 0
        self._handed: dict[int, tuple[int, str]] = {}
        self._whole: list[bytes | None] = []
        self._parts: list[bytes] = []
        self._part_size = 0

    def __repr__(self) -> str:
        return f"<InputTail {self.taken} taken, byte {self._position}>"

    @property
    def at_end(self) -> bool:
        """Whether everything was handed out that there is and ever will be."""
        return self._spool.complete and not self._whole and self._position >= self._spool.durable.size

    def ordinal(self, position: int) -> int:
        """The ordinal of the item at this position."""
        return self._handed[position][0]

    def digest(self, position: int) -> str:
        """The SHA-256 of that item's line in hex; empty for a line too long to be kept."""
        return self._handed[position][1]

    def forget(self, position: int) -> None:
        """Nobody will ask for this one again."""
        del self._handed[position]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item | Unreadable:
        while True:
            while self._whole:
                data = self._whole.pop()
                self._line += 1
                if data is not None and (not data or data.isspace()):
                    continue
                self._ordinal += 1
                if not self._skip(self._ordinal):
                    return self._item(data)
            try:
                if not await self._read():
                    raise StopAsyncIteration
            except OSError as error:
                self.problem = f"the job's inputs cannot be read: {reason(error)}"
                raise StopAsyncIteration from error

    async def _read(self) -> bool:
        """Reads the next block; False at the end."""
        while (left := self._spool.durable.size - self._position) <= 0:
            if self._spool.complete:
                return False
            await self._spool.changed.beyond(self._spool.changed.version)
        data = await trio.to_thread.run_sync(
            os.pread, self._fd, min(left, BLOCK), self._position, limiter=self._limiter
        )
        if not data:
            raise OSError("the file is shorter than it was")
        self._position += len(data)
        self._split(data)
        return True

    def _split(self, data: bytes) -> None:
        pieces = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in pieces[:-1]:
            self._keep(piece)
            lines.append(b"".join(self._parts) if self._part_size <= MAX_LINE_BYTES else None)
            self._parts, self._part_size = [], 0
        self._keep(pieces[-1])
        self._whole = lines[::-1]

    def _keep(self, piece: bytes) -> None:
        self._part_size += len(piece)
        if self._part_size > MAX_LINE_BYTES:
            self._parts = []
        elif piece:
            self._parts.append(piece)

    def _item(self, data: bytes | None) -> Item | Unreadable:
        self.taken += 1
        position = self.taken
        self._handed[position] = self._ordinal, "" if data is None else hashlib.sha256(data).hexdigest()
        if data is None:
            return Unreadable(position, f"line {self._line}", _TOO_LONG)
        try:
            line = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Unreadable(position, f"line {self._line}", f"not an input: {_lower(str(error))}")
        if line.problem:
            return Unreadable(position, line.origin, line.problem)
        return Item(position, line.origin, line.fields)


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]
