"""A job's inputs on their way to disk: appended at offsets, durable before anybody is told or works with them.

Bytes go into the page cache as they come and are synced together, a little later or when there are many; what a sync
covered is *durable*: it is acknowledged, and workers may read it. An upload that ends in any way, also by its client's
leaving, syncs what it brought, so a client that comes back has to send nothing twice.

One upload at a time: a newer one takes over, since the older is usually a connection whose end nobody has noticed.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from agents.errors import HeadraceError
from orchestrator.jobs.errors import JobConflict, JobStorageError, WrongOffset
from orchestrator.jobs.files import JobFolder, storage_error
from orchestrator.jobs.lines import InputState, LineCounter
from orchestrator.jobs.signal import Signal

SYNC_BYTES: Final = 1024 * 1024
"""Bytes that wait for a sync at most; the upload waits with them, so it is no faster than the disk."""

SYNC_SECONDS: Final = 0.05
"""How long the bytes of a slow upload are gathered before a sync."""


class InputSpool:
    """The inputs of one job. `durable` says how far they are safe; `changed` rings with it and with `complete`."""

    def __init__(
        self,
        folder: JobFolder,
        state: InputState,
        *,
        complete: bool,
        limiter: trio.CapacityLimiter,
        on_change: Callable[[], None],
    ) -> None:
        self.durable = state
        self.complete = complete
        self.changed = Signal()
        self._path = folder.inputs
        self._counter = LineCounter(state)
        self._limiter = limiter
        self._on_change = on_change
        self._turn = trio.Lock()
        self._syncing = trio.Lock()
        self._upload = trio.CancelScope()
        self._why: Callable[[], HeadraceError] = self._moved_on
        self._closed: HeadraceError | None = None
        self._broken: JobStorageError | None = None
        self._dirty = trio.Event()
        self._much = trio.Event()

    def __repr__(self) -> str:
        return f"<InputSpool {self.durable.lines} lines, {self.durable.size} bytes{', complete' * self.complete}>"

    async def append(self, offset: int, body: AsyncIterator[bytes]) -> None:
        """Appends a body at `offset`; all of it is durable afterwards. What came of a body that fails is kept as well.

        Raises `WrongOffset`, `JobConflict` where inputs are complete, `JobStorageError`, and what the body raises.
        """
        if not self.durable.size <= offset <= self._counter.state.size:
            raise self._wrong(offset)
        self._interrupt(self._moved_on)
        async with self._turn:
            if self._closed is not None:
                raise self._closed
            if self.complete:
                raise JobConflict("the job's inputs are complete: nothing can be added to them")
            if offset != self.durable.size:
                raise self._wrong(offset)
            with trio.CancelScope() as self._upload:
                await self._receive(body)
            if self._upload.cancelled_caught:
                raise self._why()

    async def finish(self, keep: Callable[[], Awaitable[None]]) -> None:
        """There will be no more, once `keep` has made that durable. Raises `JobConflict` for a last line torn off."""
        self._interrupt(self._moved_on)
        async with self._turn:
            if self.durable.torn:
                raise JobConflict(
                    f"the inputs end in the middle of a line, at byte {self.durable.size}: "
                    "upload the rest of it, or a line break"
                )
            await keep()
            self.complete = True
            self.changed.ring()
            self._on_change()

    def close(self, error: HeadraceError) -> None:
        """Ends the upload under way and refuses others, with `error`; what came of it is kept."""
        self._closed = error
        self._interrupt(lambda: error)

    @asynccontextmanager
    async def closed(self, error: HeadraceError) -> AsyncGenerator[None, None]:
        """Nothing is being appended inside the block, and nothing ever will be unless it fails."""
        before, self._closed = self._closed, error
        self._interrupt(lambda: error)
        async with self._turn:
            try:
                yield
            except BaseException:
                self._closed = before
                raise

    def _interrupt(self, why: Callable[[], HeadraceError]) -> None:
        self._why = why
        self._upload.cancel()

    async def _receive(self, body: AsyncIterator[bytes]) -> None:
        failure: Exception | None = None
        fd = await trio.to_thread.run_sync(self._open, limiter=self._limiter)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_synced, fd)
                try:
                    async for data in body:
                        await self._write(fd, data)
                except Exception as error:
                    failure = error  # raised outside, since a nursery would wrap it
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                try:
                    await self._sync(fd)
                finally:
                    os.close(fd)
        if failure is not None:
            raise failure

    async def _write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._broken is not None:
                raise self._broken
            try:
                written = os.write(fd, view[:SYNC_BYTES])
            except OSError as error:
                raise storage_error(self._path, "cannot be written", error) from error
            self._counter.feed(bytes(view[:written]))
            view = view[written:]
            self._dirty.set()
            if self._counter.state.size - self.durable.size >= SYNC_BYTES:
                self._much.set()
                await self._sync(fd)

    async def _keep_synced(self, fd: int) -> None:
        while self._broken is None:
            await self._dirty.wait()
            with trio.move_on_after(SYNC_SECONDS):
                await self._much.wait()
            self._dirty, self._much = trio.Event(), trio.Event()
            with suppress(JobStorageError):  # the upload's next write tells
                await self._sync(fd)

    async def _sync(self, fd: int) -> None:
        async with self._syncing:
            if self._broken is not None:
                raise self._broken
            state = self._counter.state
            if state.size == self.durable.size:
                return
            try:
                await trio.to_thread.run_sync(_sync_data, fd, limiter=self._limiter)
            except OSError as error:
                # Behind a sync that failed, the next may succeed although the pages have never reached the disk.
                self._broken = storage_error(self._path, "cannot be written to the disk", error)
                raise self._broken from error
            self.durable = state
            self.changed.ring()
            self._on_change()

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(self._path, "cannot be written", error) from error

    def _wrong(self, offset: int) -> WrongOffset:
        right = self.durable.size
        return WrongOffset(f"the job's inputs end at byte {right}, so an upload cannot begin at {offset}", right)

    def _moved_on(self) -> WrongOffset:
        right = self.durable.size
        return WrongOffset(
            f"another request about this job's inputs took over from this upload, at byte {right}", right
        )


def _sync_data(fd: int) -> None:
    # not everywhere there is the cheaper one
    getattr(os, "fdatasync", os.fsync)(fd)
