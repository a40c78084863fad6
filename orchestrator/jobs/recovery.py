"""A job taken up from its log: where it stands, its results file mended, and the log itself to go on with.

Jobs that have no log (made by an earlier version, or kept in a store that is gone) get one made of their folder's
record and results, and then are like all others. So are results that the log lacks, which happens where a store was
put back to an earlier state: they were paid for. Where file and log differ otherwise, the log is right.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeVar

import msgspec
import trio
from msgspec import Struct

from orchestrator.jobs.events import (
    AttemptStarted,
    InputsComplete,
    ItemFinished,
    JobEnded,
    JobEvent,
    JobPlanned,
    JobStopping,
    decode,
)
from orchestrator.jobs.files import JobFolder, storage_error
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.log import JobLog, pages
from orchestrator.jobs.projection import Projection, find_lines
from orchestrator.jobs.record import OPEN_PHASES, JobLine, JobRecord
from orchestrator.store.base import Store

T = TypeVar("T")

_replace: Final = msgspec.structs.replace


class TakenUp(Struct, frozen=True):
    """A job, its log taken. `fold.record` is None where it was removed; `result_bytes` is the size of its results."""

    log: JobLog
    fold: JobFold
    behind: int
    result_bytes: int
    notes: tuple[str, ...] = ()


class Recovery:
    """Takes jobs up. `wall` gives seconds since the epoch; files are worked on in threads of `limiter`."""

    def __init__(self, store: Store, wall: Callable[[], float], limiter: trio.CapacityLimiter) -> None:
        self._store = store
        self._wall = wall
        self._limiter = limiter

    async def needed(self, record: JobRecord) -> bool:
        """Whether the log may know better than the record. Raises `StoreError`."""
        if record.phase in OPEN_PHASES:
            return True
        last = await JobLog.find(self._store, record.job)
        return last not in (0, record.events)  # 0: pruned, or of an earlier version; and it has ended

    async def plan(self, record: JobRecord) -> JobRecord:
        """A new job's record, behind the attempts of those that had its name. Raises `StoreError`, `UnknownEvent`."""
        last = await JobLog.find(self._store, record.job)
        if not last:
            return record
        fold = JobFold()
        for after in (last - 1, 0):  # usually it is enough to see that one was removed
            async with aclosing(pages(self._store, record.job, after)) as found:
                async for page in found:
                    for entry in page:
                        fold.add(decode(entry.data), entry.number)
            if fold.removed:
                break
        attempt = fold.attempt + 1
        return _replace(record, attempt=attempt, granted_attempt=attempt, behind=last)

    async def begin(self, record: JobRecord) -> JobLog:
        """The log of a new job. Raises `StoreError`."""
        events = _first_events(record)
        return await JobLog.begin(self._store, record.job, record.request.tenant, events, record.behind)

    async def take_up(self, folder: JobFolder, record: JobRecord, items: int) -> TakenUp:
        """The job of this folder. `record` is what the folder says, `items` how many inputs there are.

        Raises `StoreError`, `UnknownEvent`, `JobStorageError`.
        """
        if await JobLog.find(self._store, record.job):
            log = await JobLog.take(self._store, record.job)
        else:
            record = _replace(record, behind=0, events=0)
            log = await self.begin(_replace(record, attempt=1, granted_attempt=1))
        return await self._mend(log, folder, record, items)

    async def _mend(self, log: JobLog, folder: JobFolder, record: JobRecord, items: int) -> TakenUp:
        notes: list[str] = []
        fold, projection = await self._read(log, folder, record.behind)
        try:
            if not fold.removed and (not record.events or projection.beyond()):
                if fold.record is None:  # its daemon died between making the folder and the log
                    await log.append(*_first_events(record))
                notes = await self._adopt(log, folder, record, items, fold, projection.size)
                projection.close()
                fold, projection = await self._read(log, folder, record.behind)
            await self._thread(folder, projection.end)
        finally:
            projection.close()
        if projection.wrong:
            notes.append(f"{folder.results} was damaged, and has been put right from the job's log")
        return TakenUp(log, fold, record.behind, projection.size, tuple(notes))

    async def _read(self, log: JobLog, folder: JobFolder, after: int) -> tuple[JobFold, Projection]:
        fold = JobFold()
        projection = await self._thread(folder, partial(Projection, folder.results))
        try:
            async with aclosing(pages(self._store, log.job, after)) as found:
                async for page in found:
                    data = b"".join([fold.add(decode(entry.data), entry.number) for entry in page])
                    await self._thread(folder, partial(projection.expect, data))
        except BaseException:
            projection.close()
            raise
        return fold, projection

    async def _adopt(
        self, log: JobLog, folder: JobFolder, record: JobRecord, items: int, fold: JobFold, start: int
    ) -> list[str]:
        """Writes into the log what only the folder knows; what to tell about it."""
        attempt, adopted, unusable = max(fold.attempt, 1), 0, 0
        now = self._wall()
        while True:
            found = await self._thread(folder, partial(find_lines, folder.results, start, items))
            if found.end == start:
                break
            start, unusable = found.end, unusable + found.unusable
            events: list[JobEvent] = []
            for line, data in found.lines:
                if line.attempt > attempt:
                    attempt = line.attempt
                    events.append(_attempt(record, attempt, now))
                events.append(_finished(line, data, now))
            adopted += len(found.lines)
            if events:
                await log.append(*events)
        if not record.events:
            if record.attempt > attempt:
                await log.append(_attempt(record, record.attempt, now))
            await log.append(*_rest(record, fold, now))
        notes = [f"the log of job {record.job} has taken over {adopted} results of its file"] if adopted else []
        if unusable:
            notes.append(f"{folder.results}: {unusable} lines cannot be read; their items count as not run")
        return notes

    async def _thread(self, folder: JobFolder, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        except OSError as error:
            raise storage_error(folder.results, "cannot be used", error) from error


def _first_events(record: JobRecord) -> Sequence[JobEvent]:
    planned = JobPlanned(
        at=record.granted_at,
        job=record.job,
        request=record.request,
        agent=record.agent,
        model=record.model,
        priority=record.priority,
        workers=record.workers,
        created=record.created,
    )
    return planned, AttemptStarted(at=record.granted_at, attempt=record.attempt, granted=True)


def _attempt(record: JobRecord, attempt: int, now: float) -> AttemptStarted:
    at = record.granted_at if attempt == record.granted_attempt else now
    return AttemptStarted(at=at, attempt=attempt, granted=attempt <= record.granted_attempt)


def _finished(line: JobLine, data: bytes, now: float) -> ItemFinished:
    return ItemFinished(at=now, ordinal=line.ordinal, digest="", line=msgspec.Raw(data))


def _rest(record: JobRecord, fold: JobFold, now: float) -> list[JobEvent]:
    """What the record of a job knows beside results, if its folder was written before its log."""
    known, events = fold.record, list[JobEvent]()
    if record.complete and not (known is not None and known.complete):
        events.append(InputsComplete(at=now, items=record.received, size=record.upload_offset))
    if record.phase == "stopping" and fold.ending is None:
        events.append(JobStopping(at=now, phase="cancelled", message=record.message))
    elif record.phase not in OPEN_PHASES and (known is None or known.ended is None):
        events.append(
            JobEnded(
                at=record.ended or now,
                phase=record.phase,
                message=record.message,
                cancelled=record.cancelled,
                gathered=record.summary,
            )
        )
    return events
