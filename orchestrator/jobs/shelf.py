"""The jobs of one service by name, each in its folder."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

from orchestrator.jobs.entry import JobEntry
from orchestrator.jobs.errors import DuplicateJob, UnknownJob
from orchestrator.jobs.files import JobFiles, StoredJob
from orchestrator.jobs.lines import NO_INPUTS
from orchestrator.jobs.record import JobRecord
from orchestrator.views.jobs import JobList


class JobShelf:
    """All jobs there are, over a folder. Files are worked on in threads of `limiter`."""

    def __init__(self, folder: Path, limiter: trio.CapacityLimiter) -> None:
        self.entries: dict[str, JobEntry] = {}
        self._files = JobFiles(folder)
        self._limiter = limiter
        self._making: set[str] = set()

    @property
    def live(self) -> int:
        """Jobs that have not ended."""
        return sum(entry.live for entry in self.entries.values())

    async def found(self) -> list[JobEntry | str]:
        """The jobs that are in the folder, put on the shelf, and what is to be told of the rest of it.

        Raises `JobStorageError`.
        """
        stored = await trio.to_thread.run_sync(lambda: list(self._files.open()), limiter=self._limiter)
        return [one if isinstance(one, str) else self._add(one) for one in stored]

    async def make(self, record: JobRecord, begin: Callable[[JobEntry], Awaitable[None]]) -> JobEntry:
        """A new job that has begun; nothing is left of it where that fails. Raises `JobStorageError`."""
        folder = self._files.folder(record.job)
        await trio.to_thread.run_sync(folder.create, record, limiter=self._limiter)
        entry = self._add(StoredJob(record, NO_INPUTS, 0))
        try:
            await begin(entry)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.discard(entry)
            raise
        return entry

    @contextmanager
    def name(self, job: str) -> Iterator[None]:
        """Keeps a name for a job that is being made. Raises `DuplicateJob`."""
        if job in self.entries or job in self._making:
            raise DuplicateJob(f"there is a job {job} already")
        self._making.add(job)
        try:
            yield
        finally:
            self._making.remove(job)

    async def discard(self, entry: JobEntry) -> None:
        """Removes a job and its folder. Raises `JobStorageError`."""
        await trio.to_thread.run_sync(entry.folder.remove, limiter=self._limiter)
        del self.entries[entry.job]

    def find(self, job: str) -> JobEntry:
        """Raises `UnknownJob`."""
        try:
            return self.entries[job]
        except KeyError:
            raise UnknownJob(f"there is no job {job}") from None

    def has(self, entry: JobEntry) -> bool:
        """Whether it is still there."""
        return self.entries.get(entry.job) is entry

    @asynccontextmanager
    async def control(self, job: str) -> AsyncGenerator[JobEntry, None]:
        """The job, for whoever changes where it stands; others wait for their turn. Raises `UnknownJob`."""
        entry = self.find(job)
        async with entry.control:
            if not self.has(entry):  # removed meanwhile
                raise UnknownJob(f"there is no job {job} any more")
            yield entry

    def list(self) -> JobList:
        """All of them, the newest first."""
        entries = sorted(self.entries.values(), key=lambda entry: (-entry.record.created, entry.job))
        return JobList(jobs=tuple(entry.view() for entry in entries))

    def _add(self, stored: StoredJob) -> JobEntry:
        entry = JobEntry(self._files.folder(stored.record.job), stored, self._limiter)
        self.entries[entry.job] = entry
        return entry

    def __repr__(self) -> str:
        return f"<JobShelf {self.live} live of {len(self.entries)}>"
