"""One attempt at a job: its inputs become runs, the runs' results lines on disk.

`jobs.Job` bounds and orders the runs. Here is what the daemon adds: runs go through its run service under the job's
flow and shared budget, the fuse watches their model calls, results survive, and the end is told apart by why it came.

A run that was taken away with the job (cancelled, or cut off when the daemon ends) leaves no line: its item counts as
never finished, and the next attempt runs it again.
"""

import math
import os
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog
import trio
from msgspec import Struct

from agents.budget import Scope
from agents.errors import Draining, HeadraceError, ModelError
from agents.lifecycle import StopReason
from agents.port import ModelPort
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.jobs.files import JobFolder, storage_error
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.item_runs import Watched, item_result
from orchestrator.jobs.job import ItemResult, Job, JobSpec
from orchestrator.jobs.outputs import ResultWriter
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.tail import InputTail
from orchestrator.jobs.template import Template
from orchestrator.views.jobs import JobPhase
from orchestrator.views.runs import RunRequest

BUDGET_SCOPE = "job"
"""How a job's budget is called in results."""

_TAKEN_AWAY = "taken_away"
_log = structlog.get_logger("headrace.jobs")


class RunsToEnd(Protocol):
    """What a job needs of the run service."""

    async def run_to_end(
        self,
        request: RunRequest,
        *,
        budget: Scope | None = None,
        agent: AgentSpec | None = None,
        through: Callable[[ModelPort], ModelPort] = ...,
    ) -> RunResult:
        """Runs in the caller's task, from start to result. Raises `HeadraceError` where nothing was created."""
        ...


class Ending(Struct, frozen=True):
    """How an attempt at a job ended. `cancelled` items were begun and taken away."""

    phase: JobPhase
    message: str = ""
    cancelled: int = 0


class JobWork:
    """One attempt. Call `run` once; the rest may be used while it runs."""

    def __init__(
        self,
        record: JobRecord,
        folder: JobFolder,
        *,
        spool: InputSpool,
        results: ResultView,
        table: ResultTable,
        runs: RunsToEnd,
        agent: AgentSpec,
        budget: Scope,
        fuse: Fuse,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self.table = table
        self.stopping: Ending | None = None
        self._record = record
        self._folder = folder
        self._spool = spool
        self._results = results
        self._runs = runs
        self._agent = agent
        self._budget = budget
        self._fuse = fuse
        self._limiter = limiter
        self._live = 0
        self._written = 0
        self._job: Job | None = None
        self._tail: InputTail | None = None
        self._writer: ResultWriter | None = None

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
        return "" if self._job is None else self._job.stopping

    @property
    def is_stopping(self) -> bool:
        return self.stopping is not None or (self._job is not None and bool(self._job.stopping))

    @property
    def begun(self) -> int:
        """Items taken that have left no line."""
        return 0 if self._tail is None else self._tail.taken - self._written

    def stop(self, phase: JobPhase, message: str, *, grace: float = 0.0) -> None:
        """Takes no more items, gives live runs `grace` seconds. The first call's phase and message stand."""
        if not self.is_stopping:
            self.stopping = Ending(phase, message)
            self._results.changed.ring()
        if self._job is not None:
            self._job.stop(message, grace=grace)

    def hurry(self) -> None:
        """Takes live runs away at once."""
        if self._job is not None:
            self._job.hurry()

    async def run(self) -> Ending:
        """Works until the inputs have ended or it was stopped. Raises `JobStorageError` where it cannot begin."""
        record = self._record
        skip = self.table.is_done
        async with _Descriptors(self._folder, self._limiter) as files:
            self._tail = InputTail(files.inputs, self._spool, skip, limiter=self._limiter)
            self._writer = ResultWriter(files.results, str(self._folder.results))
            spec = JobSpec(
                record.job,
                Template(record.request.prompt),
                workers=record.workers,
                ordered=record.request.ordered,
                fail_fast=record.request.fail_fast,
            )
            self._job = Job(spec, self._tail, self._run_item, self._write)
            if self.stopping is not None:  # before it began
                self._job.stop(self.stopping.message)
            report = await self._job.run()
        return self._ending(report.message)

    def _ending(self, message: str) -> Ending:
        assert self._tail is not None
        left = self.begun
        stopping = self.stopping
        if stopping is not None and self._tail.at_end and not left and stopping.phase in ("interrupted", "cancelled"):
            stopping = None  # it was whole before that took effect
            message = ""
        if stopping is not None:
            return msgspec.structs.replace(stopping, cancelled=left)
        if message:  # an item under `fail_fast`, or results that cannot be written
            return Ending("failed", message, left)
        if self._tail.problem:
            return Ending("failed", self._tail.problem, left)
        return Ending("failed" if self.table.failed else "done")

    async def _run_item(self, item: Item, prompt: str) -> ItemResult:
        assert self._tail is not None
        self._live += 1
        self._results.changed.ring()
        try:
            result = await self._run(item, self._request(self._tail.ordinal(item.ordinal), prompt))
        finally:
            self._live -= 1
        return result

    def _request(self, ordinal: int, prompt: str) -> RunRequest:
        record = self._record
        again = f".{record.attempt}" if record.attempt > 1 else ""
        return RunRequest(
            task=prompt,
            who=record.request.who,
            run=f"{record.job}.{ordinal}{again}",
            tenant=record.request.tenant,
            job=record.job,
            priority=record.priority,
        )

    async def _run(self, item: Item, request: RunRequest) -> ItemResult:
        try:
            result = await self._runs.run_to_end(request, budget=self._budget, agent=self._agent, through=self._watched)
        except Draining as error:
            self.stop("interrupted", error.message, grace=math.inf)
            return _failed(item, _TAKEN_AWAY, error.message)
        except HeadraceError as error:
            return _failed(item, StopReason.INTERNAL_ERROR.value, error.message)
        except Exception as error:
            _log.exception("an item could not be run", job=request.job, run=request.run)
            return _failed(item, StopReason.INTERNAL_ERROR.value, f"{type(error).__name__}: {error}")
        taken = result.reason in (StopReason.CANCELLED, StopReason.INTERRUPTED)
        if taken and self.stopping is not None:
            return _failed(item, _TAKEN_AWAY, result.message)
        if not result.ok and result.scope in [scope.name for scope in self._budget.path()]:
            self.stop("stopped", f"its budget is spent: {result.message}", grace=math.inf)
        return _line(item_result(item, result), result.micro_dollars)

    async def _write(self, result: ItemResult) -> None:
        assert self._tail is not None
        assert self._writer is not None
        ordinal = self._tail.ordinal(result.ordinal)
        self._tail.forget(result.ordinal)
        if result.reason == _TAKEN_AWAY:
            return
        line = result if isinstance(result, JobLine) else _line(result, 0)  # what never ran cost nothing
        line = msgspec.structs.replace(line, ordinal=ordinal, attempt=self._record.attempt)
        data = line.line()
        await self._writer.write(data)
        self._written += 1
        self.table.add(line)
        self._results.size += len(data)
        self._results.changed.ring()

    def _watched(self, port: ModelPort) -> ModelPort:
        return Watched(port, self._note)

    def _note(self, error: ModelError | None) -> None:
        if error is None:
            self._fuse.succeeded()
            return
        hopeless = self._fuse.failed(error)
        if hopeless is not None:
            self.stop("stopped", hopeless)


class _Descriptors:
    """The two files of an attempt, open."""

    def __init__(self, folder: JobFolder, limiter: trio.CapacityLimiter) -> None:
        self.inputs = self.results = -1
        self._folder = folder
        self._limiter = limiter

    async def __aenter__(self) -> "_Descriptors":
        await trio.to_thread.run_sync(self._open, limiter=self._limiter)
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self.inputs)
        os.close(self.results)

    def _open(self) -> None:
        folder = self._folder
        try:
            self.inputs = os.open(folder.inputs, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(folder.inputs, "cannot be read", error) from error
        try:
            self.results = os.open(folder.results, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            os.close(self.inputs)
            raise storage_error(folder.results, "cannot be written", error) from error


def _line(result: ItemResult, micro_dollars: int | None) -> JobLine:
    return JobLine(**msgspec.structs.asdict(result), micro_dollars=micro_dollars)


def _failed(item: Item, why: str, problem: str) -> ItemResult:
    return ItemResult(item.ordinal, item.origin, "failed", why, error=problem)
