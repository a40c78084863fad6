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
from typing import Final

import msgspec
import structlog
import trio

from agents.amounts import NOTHING, Amounts
from agents.budget import Scope
from agents.errors import Draining, HeadraceError
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.origin import RunLeft
from agents.port import ModelPort
from agents.spec import AgentSpec
from orchestrator.jobs.ending import Ending, may_go_on
from orchestrator.jobs.events import JobEvent, JobStopping
from orchestrator.jobs.files import JobFolder, OpenFiles
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.gather import Close
from orchestrator.jobs.gathering import Gathering
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.item_lines import failed_line, item_line, line_of, unknown_of
from orchestrator.jobs.item_runs import Watched
from orchestrator.jobs.job import ItemResult, Job, JobSpec, item_failed
from orchestrator.jobs.log import JobLog
from orchestrator.jobs.losers import Losers
from orchestrator.jobs.planner import item_template
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.projection import ResultFile
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.rounds import QUESTION, Rounds, read_rounds
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.tail import InputTail
from orchestrator.jobs.writing import Ended, LineWriter
from orchestrator.store.base import Store
from orchestrator.store.errors import StoreError
from orchestrator.views.jobs import JobPhase, JobStage
from orchestrator.views.runs import RunRequest

_TAKEN_AWAY: Final = "taken_away"
_log = structlog.get_logger("headrace.jobs")


class JobWork:
    """One attempt. Call `run` once; the rest may be used while it runs. `left` are runs that it left open.

    `beside` holds the run of its planner or its synthesis, and `plan` and `summed_up` are what those wrote.
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
        self.left: set[str] = set()
        self.stopping: Ending | None = None
        self.stage: JobStage = "working"
        self.plan = record.plan
        self.summed_up = ""
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
        self._tail: InputTail | Rounds | None = None
        self._rounds: Rounds | None = None
        self._writer: LineWriter | None = None

    def __repr__(self) -> str:
        return f"<JobWork {self._record.job} attempt {self._record.attempt}: {self.table!r}, {self._live} live>"

    @property
    def live(self) -> int:
        """Runs under way."""
        return self._live

    @property
    def answer(self) -> str:
        """What its synthesis wrote, or its debate's last proposal."""
        return self.summed_up if self._rounds is None else self._rounds.debate.proposal

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
        return 0 if self._tail is None else max(0, self._tail.taken - self.finished)

    @property
    def finished(self) -> int:
        """Lines that have been written."""
        return 0 if self._writer is None else self._writer.written

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
            phase = stopping.phase
            self.gathering.closing = Close(phase if phase in ("done", "stopped") else "failed", stopping.message)
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
        if record.request.debate is not None:
            self._rounds = self.gathering.rounds = await read_rounds(record, self._results, self._limiter)
        with trio.CancelScope(shield=True):
            await self.gathering.ask()
        async with OpenFiles(self._folder, self._limiter) as files:
            tail = self._rounds or InputTail(files.inputs, self._spool, self.table.is_over, limiter=self._limiter)
            self._tail = tail
            self._writer = self._lines(files)
            spec = JobSpec(
                record.job,
                item_template(record.request, self.plan) if self._rounds is None else QUESTION,
                workers=record.workers,
                ordered=record.request.ordered,
                fail_fast=record.request.fail_fast,
            )
            self._job = Job(spec, tail, self._run_item, self._finish)
            if self.is_stopping:  # before it began
                self._job.stop(self.message)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.gathering.watch)
                report = await self._job.run()
                nursery.cancel_scope.cancel()
            if self.gathering.closing is not None and self.stopping is None and self._rounds is None:
                await self._drain(files.inputs, self._writer)
        problem = report.message or tail.problem
        return self.gathering.ending(self.stopping, whole=tail.at_end, left=self.begun, problem=problem)

    def _lines(self, files: OpenFiles) -> LineWriter:
        file = ResultFile(files.results, self._folder.results, self._results.size)
        kept = self._rounds.kept if self._rounds is not None else (lambda line: None)
        attempt, wall = self._record.attempt, self._wall
        return LineWriter(file, self.table, self._results, self.append, attempt=attempt, wall=wall, on_line=kept)

    async def _close(self, closing: Close) -> None:
        """Keeps that the job has enough, or cannot have it, and takes away what is live."""
        event = JobStopping(at=self._wall(), phase=closing.phase, message=closing.message, gathered=True)
        with suppress(StoreError):  # then the attempt is left
            await self.append(event)
        if self._job is not None:
            self._job.stop(closing.message)

    async def _drain(self, inputs: int, writer: LineWriter) -> None:
        losers = Losers(self._record, self._spool, self.table, self._runs, self._store, self._limiter)
        try:
            await losers.drain(inputs, writer, until=lambda: self.stopping is not None)
        except HeadraceError as error:
            self.stop("interrupted", error.message, grace=math.inf, again=may_go_on(error))

    async def _run_item(self, item: Item, prompt: str) -> ItemResult:
        assert self._tail is not None
        self._live += 1
        self._results.changed.ring()
        try:
            run, speaker = self._record.run(self._tail.ordinal(item.ordinal)), self._rounds and self._rounds.speaker
            result = await self._run(item, self._record.asking(run, prompt, speaker or None))
        finally:
            self._live -= 1
        return result

    async def _run(self, item: Item, request: RunRequest) -> ItemResult:
        try:
            agent = self._agent if self._rounds is None else None  # speakers differ
            result = await self._runs.run_to_end(request, budget=self._budget, agent=agent, through=self._watched)
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
        return item_line(item, result) if self._rounds is None else self._rounds.line(item, result)

    async def _finish(self, result: ItemResult) -> None:
        assert self._tail is not None
        unknown = self._unknown.pop(result.ordinal, NOTHING)
        if result.reason == _TAKEN_AWAY:
            self._tail.forget(result.ordinal)
            return
        assert self._writer is not None
        ordinal, digest = self._tail.ordinal(result.ordinal), self._tail.digest(result.ordinal)
        self._tail.forget(result.ordinal)
        line = result if isinstance(result, JobLine) else line_of(result, 0)  # what never ran cost nothing
        behind: tuple[JobEvent, ...] = ()
        if line.state == "failed" and self._record.request.fail_fast:
            behind = (JobStopping(at=self._wall(), phase="failed", message=item_failed(result)),)
        line = msgspec.structs.replace(line, ordinal=ordinal)
        await self._writer.write(Ended(line, digest, unknown), behind=behind)
        await self.gathering.ask()

    async def append(self, *events: JobEvent, then: Callable[[], None] = lambda: None) -> None:
        """Appends to the job's log, for a caller that is shielded. Where that fails the attempt is left, to be gone on
        with. Raises `StoreError`.
        """
        try:
            await self.log.append(*events, then=then)
        except StoreError as error:
            self.stop("interrupted", error.message, grace=math.inf, again=may_go_on(error))
            raise

    def _watched(self, port: ModelPort) -> ModelPort:
        return Watched(port, self._fuse, lambda hopeless: self.stop("stopped", hopeless))
