"""Runs asked for: created as one that is new, or found by their id and brought to their end."""

import secrets
from collections.abc import Callable

import trio

from agents.fold import result_of
from agents.log import JournalLost
from agents.origin import RunLeft
from agents.port import Flow
from agents.result import RunResult
from agents.runtime import DuplicateRun
from orchestrator.runs.creation import Creation
from orchestrator.runs.doubt import Doubts, in_doubt
from orchestrator.runs.live_runs import SHUTTING_DOWN, LiveRuns
from orchestrator.runs.means import Means
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.plan import plan_run
from orchestrator.runs.reading import read_run
from orchestrator.runs.record import RunRecord, Terms
from orchestrator.runs.taking_up import TakingUp
from orchestrator.store.errors import SessionBusy
from orchestrator.views.names import check_name
from orchestrator.views.runs import RunRequest


class Starting:
    """Starts runs for one service. What it refuses, and with what error, is said at `RunService`."""

    def __init__(self, means: Means, books: OpenRuns, live: LiveRuns, taking_up: TakingUp, doubts: Doubts) -> None:
        self._means = means
        self._books = books
        self._live = live
        self._taking_up = taking_up
        self._doubts = doubts
        self._creation = Creation(means)

    async def start(self, request: RunRequest, terms: Terms) -> RunRecord:
        """The run of somebody who asks for no result: driven in a task of its own."""
        if request.run:
            check_name("run", request.run)
        if request.session:
            check_name("session", request.session)
        record = await self._create(request, terms, counted=True)
        await self._live.begin(record)
        return record

    async def create_child(self, request: RunRequest, terms: Terms) -> RunRecord:
        """A run for a tool call of another one, for its caller to drive; also while what is live is waited for."""
        return await self._create(request, terms, counted=False)

    async def to_end(self, request: RunRequest, terms: Terms) -> RunResult:
        """The result of the run of this id, whatever it takes to get there."""
        known = self._books.records.get(request.run)
        if known is None:
            try:
                known = await self._create(request, terms, counted=False)
            except (DuplicateRun, SessionBusy):  # busy, perhaps, with one that goes on behind this one
                answer = await self._answered(request)
                if answer is not None:
                    return answer
                found = await self._doubts.find(request.run) if request.run else None
                if found is None:
                    raise
                return await self._end_of(found, request, terms)
        else:
            return await self._end_of(known, request, terms)
        await self._live.to_end(known)
        return _result(known)

    async def _end_of(self, known: RunRecord, request: RunRequest, terms: Terms) -> RunResult:
        _must_be_same(known.flow, request)
        if known.driven or known.owner is not None:
            await known.wait()
            return _result(known)
        self._live.refuse_after_close()
        known.terms = terms
        await self._live.to_end(known)
        return _result(known)

    async def _create(self, request: RunRequest, terms: Terms, *, counted: bool) -> RunRecord:
        """The run, with its first event kept, for its caller to drive. Nothing is left of one that is refused."""
        if terms.child is None:
            self._live.refuse_after_close()
        run = request.run or secrets.token_hex(8)
        session = request.session or run
        undo: list[Callable[[], None]] = [self._books.reserve(run, session)]
        try:
            self._live.beat()
            going = await self._creation.session(session, request.tenant) if request.session else None
            before = None if going is None else going.last
            catalogue, now = self._means.catalogue(), trio.current_time()
            plan = plan_run(request, run, catalogue, now, agent=terms.agent, before=before)
            flow = plan.flow
            if counted:
                self._live.room.enter(flow.tenant, now)
                undo.append(lambda: self._live.room.abandon(flow.tenant, trio.current_time()))
            undo.append(lambda: self._means.models.ended(flow))
            record = RunRecord(flow, session, plan.priority, terms, counted=counted)
            self._taking_up.model(record)
            budget = self._means.budget(flow.tenant, terms.budget)
            await self._creation.create(record, request.task, plan, budget, going)
        except BaseException as error:
            for step in reversed(undo):
                step()
            if isinstance(error, JournalLost) and in_doubt(error):
                self._doubts.ask(run)
            raise
        self._books.created(record)
        return record

    async def _answered(self, request: RunRequest) -> RunResult | None:
        """The result of a run that ended before; None where none has."""
        row = await self._means.store.run(request.run) if request.run else None
        if row is None or row.open:
            return None
        _must_be_same(Flow(row.tenant, row.job, row.run), request)
        return result_of((await read_run(self._means.store, row)).snapshot)


def _must_be_same(flow: Flow, request: RunRequest) -> None:
    if (flow.tenant, flow.job) != (request.tenant, request.job):
        raise DuplicateRun(f"there is a run {flow.run} already, and it is not this one")


def _result(record: RunRecord) -> RunResult:
    if record.result is None:
        raise RunLeft(record.problem or f"{SHUTTING_DOWN}; run {record.run} stays open")
    return record.result
