"""One attempt at a job: its inputs become runs, the runs' results lines on disk.

`jobs.Job` bounds and orders the runs. Here is what the daemon adds: runs go through its run service under the job's
flow and shared budget, the fuse watches their model calls, results survive, and the end is told apart by why it came.

An item has finished when the job's log says so, and only then is its line written. A run that was taken away with the
job (cancelled, or cut off when the daemon ends) leaves neither. A run's id follows from job, ordinal and attempt:
whoever goes on with an attempt asks for the same runs again, and gets those that had ended as they ended.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import structlog
import trio

from agents.budget import NOTHING, Amounts, Scope
from agents.errors import Draining, HeadraceError
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.origin import RunLeft
from agents.port import ModelPort
from agents.spec import AgentSpec
from orchestrator.jobs.ending import Ending, may_go_on
from orchestrator.jobs.events import ItemFinished, JobEvent, JobStopping
from orchestrator.jobs.files import JobFolder, OpenFiles
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.gather import Close
from orchestrator.jobs.gathering import Gathering
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.item_lines import failed_line, item_line, line_of, unknown_of
from orchestrator.jobs.item_runs import Watched
from orchestrator.jobs.job import ItemResult, Job, JobSpec, item_failed
from orchestrator.jobs.log import JobLog
from orchestrator.jobs.losers import drain
from orchestrator.jobs.outputs import OutputError
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.projection import ResultFile
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.tail import InputTail
from orchestrator.jobs.template import Template
from orchestrator.store.base import Store
from orchestrator.store.errors import StoreError
from orchestrator.views.jobs import JobPhase, JobStage
from orchestrator.views.runs import RunRequest

_TAKEN_AWAY: Final = "taken_away"
_log = structlog.get_logger("headrace.jobs")


class JobWork:
    """One attempt. Call `run` once; the rest may be used while it runs. `left` are runs that it left open.

    `beside` holds the run of its planner or its synthesis.
    """

    def __init__(
        self,
        record: JobRecord,
        folder: JobFolder,
        *,
        log: JobLog,
        spool: InputSpool,
        results: ResultView,
        table: ResultTable,
        runs: RunsToEnd,
        store: Store,
        agent: AgentSpec,
        budget: Scope,
        fuse: Fuse,
        limiter: trio.CapacityLimiter,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.table = table
        self.log = log
        self.finished = 0
        self.left: set[str] = set()
        self.stopping: Ending | None = None
        self.stage: JobStage = "working"
        self.answer = ""
        self.beside = trio.CancelScope()
        self.gathering = Gathering(record, spool, table, wall, self._close)
        self._record = record
        self._folder = folder
        self._spool = spool
        self._results = results
        self._runs = runs
        self._store = store
        self._agent = agent
        self._budget = budget
        self._fuse = fuse
        self._limiter = limiter
        self._wall = wall
        self._live = 0
        self._unknown: dict[int, Amounts] = {}
        self._job: Job | None = None
        self._tail: InputTail | None = None
        self._file: ResultFile | None = None

    def __repr__(self) -> str:
        return f"<JobWork {self._record.job} attempt {self._record.attempt}: {self.table!r}, {self._live} live>"

    @property
    def live(self) -> int:
        """Runs under way."""
        return self._live

    @property
    def message(self) -> str:
        """Why it is stopping; empty while it is not."""
        if self.stopping is not None:
            return self.stopping.message
        if self.gathering.closing is not None:
            return self.gathering.closing.message
        return "" if self._job is None else self._job.stopping

    @property
    def is_stopping(self) -> bool:
        return bool(self.stopping or self.gathering.closing or (self._job is not None and self._job.stopping))

    @property
    def begun(self) -> int:
        """Items taken that have left no line."""
        return 0 if self._tail is None else self._tail.taken - self.finished

    def enter(self, stage: JobStage) -> None:
        """From here on the attempt is at this stage."""
        self.stage = stage
        self._results.changed.ring()

    def stop(
        self, phase: JobPhase, message: str, *, grace: float = 0.0, again: bool = False, sum_up: bool = False
    ) -> None:
        """Takes no more items, gives live runs `grace` seconds. The first call's phase and message stand.

        `again` and `sum_up` are `Ending`'s.
        """
        if self.stopping is None and (self._job is None or not self._job.stopping or self.gathering.closing):
            self.stopping = Ending(phase, message, again=again, sum_up=sum_up)
            self._results.changed.ring()
        if self._job is not None:
            self._job.stop(message, grace=grace)
        self.beside.deadline = min(self.beside.deadline, trio.current_time() + grace)

    def take_over(self, stopping: JobStopping) -> None:
        """Goes on with the end of an attempt that an earlier daemon had begun to end."""
        if stopping.gathered:
            self.gathering.closing = Close("done" if stopping.phase == "done" else "failed", stopping.message)
        else:
            self.stop(stopping.phase, stopping.message)

    def hurry(self) -> None:
        """Takes live runs away at once."""
        self.beside.deadline = -math.inf
        if self._job is not None:
            self._job.hurry()

    async def run(self) -> Ending:
        """Works until the inputs have ended or it was stopped. Raises `JobStorageError` where it cannot begin."""
        record = self._record
        skip = self.table.is_over
        with trio.CancelScope(shield=True):
            await self.gathering.ask()
        async with OpenFiles(self._folder, self._limiter) as files:
            self._tail = InputTail(files.inputs, self._spool, skip, limiter=self._limiter)
            self._file = ResultFile(files.results, self._folder.results, self._results.size)
            spec = JobSpec(
                record.job,
                Template(record.request.prompt),
                workers=record.workers,
                ordered=record.request.ordered,
                fail_fast=record.request.fail_fast,
            )
            self._job = Job(spec, self._tail, self._run_item, self._finish)
            if self.is_stopping:  # before it began
                self._job.stop(self.message)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.gathering.watch)
                report = await self._job.run()
                nursery.cancel_scope.cancel()
            if self.gathering.closing is not None and self.stopping is None:
                await self._drain(files.inputs)
        return self._ending(report.message)

    async def _close(self, closing: Close) -> None:
        """Keeps that the job has enough, or cannot have it, and takes away what is live."""
        event = JobStopping(at=self._wall(), phase=closing.phase, message=closing.message, gathered=True)
        with suppress(StoreError):  # then the attempt is left
            await self.append(event)
        if self._job is not None:
            self._job.stop(closing.message)

    async def _drain(self, inputs: int) -> None:
        record, spool, runs, store = self._record, self._spool, self._runs, self._store
        try:
            await drain(record, inputs, spool, self.table, self._write, runs=runs, store=store, limiter=self._limiter)
        except (HeadraceError, OSError) as error:
            left = error if isinstance(error, HeadraceError) else HeadraceError(f"its inputs cannot be read: {error}")
            self.stop("interrupted", left.message, grace=math.inf, again=may_go_on(left))

    def _ending(self, message: str) -> Ending:
        assert self._tail is not None
        tail, left, stopping, closing = self._tail, max(0, self.begun), self.stopping, self.gathering.closing
        if stopping is not None and tail.at_end and not left and stopping.phase in ("interrupted", "cancelled"):
            stopping, message = None, ""  # it was whole before that took effect
        if stopping is not None:
            return msgspec.structs.replace(stopping, cancelled=stopping.cancelled + left)
        if closing is None and (message or tail.problem):  # `fail_fast`, results or inputs that cannot be used
            return Ending("failed", message or tail.problem, left)
        return msgspec.structs.replace(self.gathering.at_the_end(), cancelled=left)

    async def _run_item(self, item: Item, prompt: str) -> ItemResult:
        assert self._tail is not None
        self._live += 1
        self._results.changed.ring()
        try:
            result = await self._run(
                item, self._record.asking(self._record.run(self._tail.ordinal(item.ordinal)), prompt)
            )
        finally:
            self._live -= 1
        return result

    async def _run(self, item: Item, request: RunRequest) -> ItemResult:
        try:
            result = await self._runs.run_to_end(request, budget=self._budget, agent=self._agent, through=self._watched)
        except (Draining, RunLeft, JournalLost, StoreError) as error:
            self.left.add(request.run)
            self.stop("interrupted", error.message, grace=math.inf, again=may_go_on(error))
            return failed_line(item, _TAKEN_AWAY, error.message)
        except HeadraceError as error:
            return failed_line(item, StopReason.INTERNAL_ERROR.value, error.message)
        except Exception as error:
            _log.exception("an item could not be run", job=request.job, run=request.run)
            return failed_line(item, StopReason.INTERNAL_ERROR.value, f"{type(error).__name__}: {error}")
        taken = result.reason in (StopReason.CANCELLED, StopReason.INTERRUPTED)
        if taken and self.stopping is not None:
            return failed_line(item, _TAKEN_AWAY, result.message)
        if not result.ok and result.scope in [scope.name for scope in self._budget.path()]:
            self.stop("stopped", f"its budget is spent: {result.message}", grace=math.inf, sum_up=True)
        unknown = unknown_of(result)
        if unknown != NOTHING:
            self._unknown[item.ordinal] = unknown
        return item_line(item, result)

    async def _finish(self, result: ItemResult) -> None:
        assert self._tail is not None
        unknown = self._unknown.pop(result.ordinal, NOTHING)
        if result.reason == _TAKEN_AWAY:
            self._tail.forget(result.ordinal)
            return
        await self._write(result, self._tail, unknown)
        await self.gathering.ask()

    async def _write(self, result: ItemResult, tail: InputTail, unknown: Amounts) -> None:
        position = result.ordinal
        ordinal, digest = tail.ordinal(position), tail.digest(position)
        tail.forget(position)
        line = result if isinstance(result, JobLine) else line_of(result, 0)  # what never ran cost nothing
        line = msgspec.structs.replace(line, ordinal=ordinal, attempt=self._record.attempt)
        data, now = line.line(), self._wall()
        finished = ItemFinished(at=now, ordinal=ordinal, digest=digest, line=msgspec.Raw(data[:-1]), unknown=unknown)
        events: list[JobEvent] = [finished]
        if line.state == "failed" and self._record.request.fail_fast:
            events.append(JobStopping(at=now, phase="failed", message=item_failed(result)))
        try:
            await self.append(*events, then=partial(self._keep, line, data, unknown))
        except StoreError as error:
            raise OutputError(error.message) from error

    async def append(self, *events: JobEvent, then: Callable[[], None] = lambda: None) -> None:
        """Appends to the job's log, for a caller that is shielded. Where that fails the attempt is left, to be gone on
        with. Raises `StoreError`.
        """
        try:
            await self.log.append(*events, then=then)
        except StoreError as error:
            self.stop("interrupted", error.message, grace=math.inf, again=may_go_on(error))
            raise

    def _keep(self, line: JobLine, data: bytes, unknown: Amounts) -> None:
        """The log has it: so do the table and the file, in the log's order."""
        assert self._file is not None
        self.finished += 1
        self.table.add(line, unknown)
        self._file.append(data)
        self._results.size += len(data)
        self._results.changed.ring()

    def _watched(self, port: ModelPort) -> ModelPort:
        return Watched(port, self._fuse, lambda hopeless: self.stop("stopped", hopeless))
