"""An attempt from its planner to its synthesis, with the work at its items in between.

Planner and synthesis are runs of the job like those of its items, known by their ids: whoever goes on with an attempt
asks for the same ones again, and is answered from their logs where they have ended.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, Literal

import msgspec
import trio

from agents.budget import Scope
from agents.errors import Draining, HeadraceError
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.messages import Usage
from agents.origin import RunLeft
from agents.result import RunResult
from orchestrator.jobs.budget import Grant
from orchestrator.jobs.ending import Ending, may_go_on
from orchestrator.jobs.events import InputsComplete, StageEnded
from orchestrator.jobs.planner import MalformedPlan, as_inputs, as_list, planning_task, read_plan, repair_task
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import PLAN, REPAIR, SYNTHESIS, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.synthesis import TooMuch, synthesis_task
from orchestrator.jobs.work import JobWork
from orchestrator.store.errors import StoreError
from orchestrator.views.jobs import PlannerRequest, SynthesisRequest
from orchestrator.views.runs import RunRequest

_replace: Final = msgspec.structs.replace


class _Ends(Exception):
    """The attempt ends here."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


class Stages:
    """One attempt's. Call `run` once."""

    def __init__(
        self,
        record: JobRecord,
        work: JobWork,
        spool: InputSpool,
        results: ResultView,
        *,
        runs: RunsToEnd,
        grant: Grant,
        limiter: trio.CapacityLimiter,
        wall: Callable[[], float],
    ) -> None:
        self._record = record
        self._work = work
        self._spool = spool
        self._results = results
        self._runs = runs
        self._grant = grant
        self._limiter = limiter
        self._wall = wall

    def __repr__(self) -> str:
        return f"<Stages {self._record.job}: {self._work.stage}>"

    async def run(self) -> Ending:
        """Works to the end of the attempt. Raises `JobStorageError`."""
        planner, synthesis = self._record.request.planner, self._record.request.synthesis
        ending = Ending("interrupted")
        try:
            if planner is not None and not self._planned(planner) and not self._work.is_stopping:
                await self._plan(planner)
            self._work.enter("working")
            ending = await self._work.run()
            if synthesis is not None and ending.sum_up and self._work.table.done:
                await self._sum_up(synthesis)
        except _Ends as ends:
            return _replace(ends.ending, cancelled=ending.cancelled)
        except (Draining, StoreError) as error:
            return _replace(_left(error), cancelled=ending.cancelled)
        return ending

    def _planned(self, planner: PlannerRequest) -> bool:
        return bool(self._work.plan) if planner.to == "prompt" else self._spool.complete

    async def _plan(self, planner: PlannerRequest) -> None:
        self._work.enter("planning")
        record = self._record
        first = record.asking(record.beside(PLAN), planning_task(planner), planner.who)
        results = [await self._ask(first, self._grant.items)]
        try:
            subtasks = _subtasks(results[0], planner)
        except MalformedPlan as error:
            second = _replace(record.asking(record.beside(REPAIR), repair_task(error.message)), session=first.run)
            results.append(await self._ask(_replace(second, who=first.who), self._grant.items))
            try:
                subtasks = _subtasks(results[1], planner)
            except MalformedPlan as again:
                await self._pay("planning", results)
                message = f"{StopReason.MALFORMED_OUTPUT.value}: the planner's answer cannot be used: {again.message}"
                raise _Ends(Ending("failed", message)) from again
        if planner.to == "inputs":
            await self._pay("planning", results)
            await self._keep_inputs(as_inputs(subtasks))
        else:
            self._work.plan = as_list(subtasks)
            await self._pay("planning", results, plan=self._work.plan)

    async def _keep_inputs(self, data: bytes) -> None:
        """All inputs are on disk afterwards, and complete; a part of them may be from an earlier daemon."""
        spool = self._spool
        there = spool.durable.size
        if there < len(data):
            await spool.append(there, _once(data[there:]))

        async def keep() -> None:
            event = InputsComplete(at=self._wall(), items=spool.durable.lines, size=spool.durable.size)
            with trio.CancelScope(shield=True):
                await self._work.append(event)

        await spool.finish(keep)

    async def _sum_up(self, synthesis: SynthesisRequest) -> None:
        self._work.enter("synthesis")
        record = self._record
        try:
            task = await synthesis_task(record, self._results, self._limiter)
        except TooMuch as error:
            raise _Ends(Ending("failed", f"nothing was written of the results: {error.message}")) from error
        result = await self._ask(record.asking(record.beside(SYNTHESIS), task, synthesis.who), self._grant.whole)
        await self._pay("synthesis", [result], answer=result.answer if result.ok else "")
        if not result.ok:
            raise _Ends(Ending("failed", f"the synthesis failed: {result.message or result.reason.value}"))
        self._work.summed_up = result.answer

    async def _ask(self, request: RunRequest, budget: Scope) -> RunResult:
        """The end of a run beside those of the items. Raises `_Ends`, `Draining`, `StoreError`."""
        work = self._work
        work.beside = trio.CancelScope(deadline=work.beside.deadline)
        try:
            with work.beside:
                result = await self._runs.run_to_end(request, budget=budget)
                if work.stopping is None or result.reason not in (StopReason.CANCELLED, StopReason.INTERRUPTED):
                    return result
        except (RunLeft, JournalLost) as error:
            raise _Ends(_left(error)) from error
        except (Draining, StoreError):
            raise
        except HeadraceError as error:
            raise _Ends(Ending("failed", f"run {request.run}: {error.message}")) from error
        raise _Ends(work.stopping or Ending("interrupted", f"run {request.run} was taken away"))

    async def _pay(
        self,
        stage: Literal["planning", "synthesis"],
        results: Sequence[RunResult],
        *,
        answer: str = "",
        plan: str = "",
    ) -> None:
        """Keeps that the stage is over and what it cost, unless an earlier daemon has."""
        work = self._work
        if stage in work.table.stages:
            return
        costs = [result.micro_dollars for result in results]
        event = StageEnded(
            at=self._wall(),
            stage=stage,
            usage=sum((result.usage for result in results), Usage()),
            micro_dollars=None if None in costs else sum(cost or 0 for cost in costs),
            answer=answer,
            plan=plan,
        )
        with trio.CancelScope(shield=True):
            await work.append(event, then=lambda: work.table.pay_stage(stage, event.usage, event.micro_dollars))
        if stage == "planning":
            work.gathering.since = event.at


def _subtasks(result: RunResult, planner: PlannerRequest) -> list[str]:
    """Raises `MalformedPlan`, and `_Ends` where there is no answer."""
    if not result.ok:
        raise _Ends(Ending("failed", f"the planner failed: {result.message or result.reason.value}"))
    return read_plan(result.answer, planner.most)


def _left(error: HeadraceError) -> Ending:
    return Ending("interrupted", error.message, again=may_go_on(error))


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    await trio.lowlevel.checkpoint()
    yield data
