"""What a program wrote, kept within bounds: a text for the model, and the whole beside the log where that is longer.

The model gets the beginning and the end, since what went wrong is mostly said last. Whatever a program writes is read,
so that it never waits for a reader; what is beyond `MOST_KEPT` bytes is counted and dropped, but for its very end.
"""

from typing import Final, Protocol

import trio

MOST_TOLD: Final = 64 * 1024
"""Bytes of one output that the model is told."""

MOST_KEPT: Final = 16 * 1024 * 1024
"""Bytes of one output that are kept at all."""

BLOB_SECONDS: Final = 10.0
"""How long keeping a long output may hold up the answer."""

_TAIL: Final = MOST_TOLD // 4


class Blobs(Protocol):
    """Where data goes that is too large for a log."""

    async def put_blob(self, data: bytes) -> str:
        """Keeps the data; its SHA-256 in hex."""
        ...


class Output:
    """One stream of a program while it is read. `size` counts all its bytes."""

    __slots__ = ("_kept", "_tail", "size")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, data: bytes | bytearray) -> None:
        """The next bytes of the stream."""
        self.size += len(data)
        room = MOST_KEPT - len(self._kept)
        self._kept += data[:room]
        if len(data) > room:
            self._tail += data[room:]
            del self._tail[:-_TAIL]

    @property
    def fits(self) -> bool:
        """Whether the model can be told all of it."""
        return self.size <= MOST_TOLD

    @property
    def kept(self) -> bytes:
        """Its beginning, or all of it."""
        return bytes(self._kept)

    def whole(self) -> str:
        """All of it. What is not UTF-8 is replaced."""
        return self._kept.decode(errors="replace")

    def shortened(self, where: str) -> str:
        """Its beginning and its end, and in between what is left out and `where` it is."""
        tail = self._tail if len(self._tail) == _TAIL else (self._kept[-_TAIL:] + self._tail)[-_TAIL:]
        head = self._kept[: MOST_TOLD - _TAIL]
        left_out = self.size - len(head) - len(tail)
        return (
            f"{head.decode(errors='replace')}\n"
            f"[{left_out} of its {self.size} bytes are left out here; {where}]\n"
            f"{tail.decode(errors='replace')}"
        )


async def told(output: Output, blobs: Blobs | None) -> str:
    """The output as the model reads it; where that is not all of it, what was kept is in a blob, and it says in which.

    A cancellation waits until it is there, at most `BLOB_SECONDS`: the output's end is known.
    """
    if output.fits:
        return output.whole()
    if blobs is None:
        return output.shortened("nothing keeps them")
    where = f"they could not be kept within {BLOB_SECONDS:g} s"
    with trio.CancelScope(shield=True, deadline=trio.current_time() + BLOB_SECONDS):
        try:
            digest = await blobs.put_blob(output.kept)
        except Exception as error:
            where = f"they could not be kept: {error}"
        else:
            much = "all" if output.size <= MOST_KEPT else f"the first {MOST_KEPT}"
            where = f"{much} of them are in blob {digest}"
    return output.shortened(where)
