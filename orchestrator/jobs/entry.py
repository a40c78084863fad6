"""One job as the service holds it: its record, its inputs and results, and its work while it is live."""

from collections.abc import AsyncGenerator
from typing import Final

import msgspec
import trio

from orchestrator.jobs.ending import Ending
from orchestrator.jobs.files import JobFolder, StoredJob
from orchestrator.jobs.record import JobRecord, JobSummary
from orchestrator.jobs.recovery import TakenUp
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.signal import Signal
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.work import JobWork
from orchestrator.views.jobs import DebateRequest, JobPhase, JobRequest, JobView

WATCH_SECONDS: Final = 0.25
"""How often a watcher is told of changes at most."""


class JobEntry:
    """A job. `control` is held by whoever changes its record; `changed` rings whenever its view does."""

    def __init__(self, folder: JobFolder, stored: StoredJob, limiter: trio.CapacityLimiter) -> None:
        self.folder = folder
        self.record = stored.record
        self.control = trio.Lock()
        self.changed = Signal()
        self.results = ResultView(folder.results, stored.result_bytes, self.changed)
        self.spool = InputSpool(
            folder,
            stored.inputs,
            complete=stored.record.complete,
            limiter=limiter,
            on_change=self.changed.ring,
        )
        self.work: JobWork | None = None
        self.pause = 0.0
        self.ended = trio.Event()
        self._limiter = limiter

    def __repr__(self) -> str:
        return f"<JobEntry {self.record.job} {self.phase}>"

    @property
    def job(self) -> str:
        return self.record.job

    @property
    def live(self) -> bool:
        return self.work is not None

    @property
    def phase(self) -> JobPhase:
        if self.work is None:
            return self.record.phase
        return "stopping" if self.work.is_stopping else "running"

    @property
    def takes_inputs(self) -> bool:
        """Whether uploads make sense: it works, or will go on from where it was interrupted."""
        return self.live or self.record.phase == "interrupted"

    def view(self) -> JobView:
        """The job at this moment."""
        record, work, spool = self.record, self.work, self.spool
        summary: JobSummary = record.summary if work is None else work.table.summary()
        return JobView(
            job=record.job,
            name=record.request.name,
            tenant=record.request.tenant,
            priority=record.priority,
            agent=record.agent,
            model=record.model,
            weight=record.request.weight,
            workers=record.workers,
            phase=self.phase,
            created=record.created,
            ended=None if work is not None else record.ended,
            received=spool.durable.lines,
            complete=spool.complete,
            upload_offset=spool.durable.size,
            done=summary.done,
            failed=summary.failed,
            live=0 if work is None else work.live,
            cancelled=record.cancelled if work is None else 0,
            usage=summary.usage,
            micro_dollars=summary.micro_dollars,
            message=record.message if work is None else work.message,
            failures=summary.failures,
            errors=summary.errors,
            result_bytes=self.results.size,
            stage="ended" if work is None else work.stage,
            gather=record.request.gather,
            answer=record.answer if work is None else work.answer,
            debate=_named(record.request),
        )

    async def watch(self) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed, until it has ended."""
        while True:
            version, live = self.changed.version, self.live
            yield self.view()
            if not live:
                return
            await self.changed.beyond(version)
            with trio.move_on_after(WATCH_SECONDS):
                await self.ended.wait()

    def begin(self, work: JobWork) -> None:
        """The job is live from here on."""
        self.work = work
        self.ended = trio.Event()
        self.results.live = True
        self.changed.ring()

    def end(self, record: JobRecord) -> None:
        """The job is over, as the record says."""
        self.record = record
        self.work = None
        self.results.live = False
        self.ended.set()
        self.changed.ring()

    def closing_record(self, ending: Ending, now: float, events: int) -> JobRecord:
        """What the record says once it has ended so, and its log with that event."""
        assert self.work is not None
        return msgspec.structs.replace(
            self.current(),
            phase=ending.phase,
            message=ending.message,
            cancelled=ending.cancelled,
            ended=now,
            plan=self.work.plan,
            answer=self.work.answer,
            summary=self.work.table.summary(),
            events=events,
        )

    def follow(self, taken: TakenUp) -> None:
        """The job is as its log says."""
        record = taken.fold.record
        assert record is not None
        self.spool.complete = self.spool.complete or record.complete
        self.record = record
        summary = taken.fold.table.summary() if record.ended is None else record.summary
        self.stand(behind=taken.behind, events=taken.log.last, summary=summary)
        self.results.size = taken.result_bytes

    def stand(self, **fields: object) -> None:
        """The record says something else from here on; it is written when it next matters."""
        self.record = msgspec.structs.replace(self.current(), **fields)
        self.changed.ring()

    async def save(self) -> None:
        """Writes the record into the folder. Raises `JobStorageError`."""
        await trio.to_thread.run_sync(self.folder.save, self.current(), limiter=self._limiter)

    def current(self) -> JobRecord:
        """The record with how far the inputs go."""
        durable = self.spool.durable
        return msgspec.structs.replace(
            self.record, complete=self.spool.complete, received=durable.lines, upload_offset=durable.size
        )


def _named(request: JobRequest) -> DebateRequest | None:
    """The debate, its proposer said."""
    debate = request.debate
    return None if debate is None else msgspec.structs.replace(debate, proposer=request.first)
