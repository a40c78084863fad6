"""Inputs of a job on their way to the daemon: in chunks at byte offsets, resumed where the daemon has them.

While one chunk is on its way the next one fills, up to `CHUNK`: so a fast source goes in large pieces, and the first
line of a slow one (somebody types, a program computes) is not held back. The reader waits while a full chunk waits,
so that what is held is two chunks at most.
"""

from collections.abc import AsyncIterator
from typing import Final

import trio

from orchestrator.client.client import Client
from orchestrator.client.errors import ClientError, Refusal, is_gone, one_error
from orchestrator.client.wire import encode
from orchestrator.jobs.inputs import Item, Unreadable
from orchestrator.views.jobs import InputLine, JobView

CHUNK: Final = 256 * 1024

SURPRISES: Final = 5
"""How often one chunk may meet inputs that grew behind our back: an earlier request that the daemon was still reading.
"""


class UploadLost(ClientError):
    """The daemon has other bytes of these inputs than were sent: going on would mix them up."""


class Upload:
    """Sends a job's inputs in order. `sent` counts bytes that the daemon has acknowledged."""

    def __init__(self, client: Client, job: str, *, chunk: int = CHUNK) -> None:
        self.sent = 0
        self._client = client
        self._job = job
        self._chunk = chunk
        self._buffer = bytearray()
        self._ended = False
        self._filled = trio.Event()
        self._taken = trio.Event()

    async def run(self, items: AsyncIterator[Item | Unreadable]) -> None:
        """Uploads every item, then says that there are no more. Raises `ClientError`."""
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, items)
                while data := await self._next():
                    await self._send(data)
        await self._complete()

    async def _read(self, items: AsyncIterator[Item | Unreadable]) -> None:
        async for item in items:
            while len(self._buffer) >= self._chunk:
                self._taken = trio.Event()
                await self._taken.wait()
            self._buffer += encode(input_line(item)) + b"\n"
            self._filled.set()
        self._ended = True
        self._filled.set()

    async def _next(self) -> bytes:
        """What has been read meanwhile; empty at the end."""
        while not self._buffer and not self._ended:
            self._filled = trio.Event()
            await self._filled.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._taken.set()
        return data

    async def _send(self, data: bytes) -> None:
        comeback = self._client.comeback()
        unsure, surprises = False, 0
        while data:
            try:
                if unsure:
                    view = await self._client.job(self._job)
                else:
                    view = await self._client.upload(self._job, self.sent, data)
                unsure = False
                comeback.back()
            except ClientError as error:
                unsure = True
                if isinstance(error, Refusal) and error.kind == "wrong_offset" and surprises < SURPRISES:
                    surprises += 1  # what was thought to be lost arrives late
                elif not is_gone(error):
                    raise
                else:
                    await comeback.lost(error)
            else:
                data = self._acknowledged(view, data)

    def _acknowledged(self, view: JobView, data: bytes) -> bytes:
        """What is left of the chunk."""
        done = view.upload_offset - self.sent
        if not 0 <= done <= len(data):
            raise UploadLost(
                f"job {self._job}: the daemon holds {view.upload_offset:,} bytes of inputs, which is not what was sent "
                f"({self.sent:,} to {self.sent + len(data):,}); does somebody else upload to it, too?"
            )
        self.sent = view.upload_offset
        return data[done:]

    async def _complete(self) -> None:
        comeback = self._client.comeback()
        while True:
            try:
                await self._client.complete(self._job)
            except ClientError as error:
                if not is_gone(error):
                    raise
                await comeback.lost(error)
            else:
                comeback.back()
                return


def input_line(item: Item | Unreadable) -> InputLine:
    """An item as it is uploaded."""
    if isinstance(item, Unreadable):
        return InputLine(item.origin, problem=item.problem)
    return InputLine(item.origin, dict(item.fields))
