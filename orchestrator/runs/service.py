"""The daemon's runs: started, taken up, seen, watched, told, cancelled and drained by id.

A run is a segment of a session's log, and exists when its first event is in the store; `start` returns then. At most
`max_live` runs are driven at once, the others are queued in order of arrival. What clients start one by one is capped
per tenant; the runs of a job are not, since its workers bound them.

**A store that is durable** outlives this process. A run that is open when the process ends, however it ends, stays open
there, and the next one takes it up: `recover` reads what is open before anything else begins, `resume_rest` drives what
nobody has asked for by then. A run whose log takes no more events, or that cannot be taken up, stays open as well, says
why, and is tried again until it can be.

**Without one** runs are in memory and gone with the process: one that ends closes its runs as cancelled, and says why.
Of runs that have ended the latest `keep_ended` stay readable, so memory is bounded however many pass through.
"""

import math
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing

import trio

from agents.budget import Limits, Scope
from agents.errors import Draining
from agents.fold import result_of
from agents.loop import Taken
from agents.observation import Observed
from agents.origin import RunLeft
from agents.port import Flow, Journal, ModelPort, Models
from agents.result import RunResult
from agents.runtime import DuplicateRun, UnknownRun
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.policy.run_room import RunRoom
from orchestrator.runs.config import DEFAULTS, RunsConfig
from orchestrator.runs.creation import Creation
from orchestrator.runs.driving import Driving
from orchestrator.runs.ended_sessions import EndedSessions
from orchestrator.runs.executor import Executor
from orchestrator.runs.head import view_of
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.outside import Outside, run_over
from orchestrator.runs.page import RunFilter, RunPages, RunStatistics, count_states
from orchestrator.runs.plan import plan_run
from orchestrator.runs.reading import ended_detail, read_run
from orchestrator.runs.record import RunRecord, Terms
from orchestrator.runs.recovery import open_runs, recorded
from orchestrator.runs.taking_up import TakingUp, held
from orchestrator.runs.watching import watch_run
from orchestrator.store.base import RunRow, Store
from orchestrator.store.memory import MemoryStore
from orchestrator.views.names import check_name
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView

__all__ = ["RunService", "RunsConfig"]

SHUTTING_DOWN = "the daemon is shutting down"


class RunService:
    """Implements `orchestrator.api.services.Runs`. Runs live in `nursery`; cancelling it closes them as cancelled, or,
    where the store is durable, leaves them open.

    `store` keeps them, one of this service's own in memory if not given; `sole` says that no other process has it, so
    that what others held is free. `holder` is what it is called there as an executor. `journal` wraps a run's log; `parent` gives the budget above a tenant's runs, `wall`
    seconds since the epoch.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        store: Store | None = None,
        sole: bool = True,
        holder: str = "",
        config: RunsConfig = DEFAULTS,
        journal: Callable[[Journal], Journal] = lambda log: log,
        parent: Callable[[str], Scope | None] = lambda tenant: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._nursery = nursery
        self._models = models
        self._catalogue, self._config, self._wall = catalogue, config, wall
        self._parent = parent
        self._store = MemoryStore(wall) if store is None else store
        self._executor = Executor(self._store, sole=sole, holder=holder)
        self._executor.on_fence = self._leave_all
        self._executor.on_cancelled = self._leave_for_good
        self._limiter = trio.CapacityLimiter(config.max_live)
        self._room = RunRoom(config.per_tenant, config.in_all)
        self._open = OpenRuns()
        self._records = self._open.records
        self._closed = self._beating = False
        self._last_words: str | None = None
        self._creation = Creation(self._store, self._executor, journal=journal, clock=self._clock)
        self._taking_up = TakingUp(
            self._store,
            self._executor,
            models=models,
            catalogue=catalogue,
            journal=journal,
            parent=parent,
            clock=self._clock,
        )
        self._driving = Driving(self._executor, self._taking_up, self._limiter, again=self._store.durable, wall=wall)
        self._outside = Outside(self._store, wall)
        self._pages = RunPages(self._store, self._records)
        self._ended = EndedSessions(self._store, self._open.busy)

    @property
    def store(self) -> Store:
        """Where its runs are kept."""
        return self._store

    @property
    def executor(self) -> Executor:
        """What takes sessions in this process."""
        return self._executor

    def holds(self, session: str) -> bool:
        """Whether a run of the session is open here."""
        return session in self._open.busy

    # After another process

    async def recover(self) -> int:
        """Reads what an earlier process left open, before anything is driven; answers how many runs that is.

        Each is visible from here on, and takes its session. Model calls that nobody knows the end of are in the ledger
        as lost. Raises `StoreError`.
        """
        self._beat()
        await self._executor.announce()
        for record in await open_runs(self._store, self._wall):
            if record.run not in self._records:
                self._open.found(record)
        return len(self._records)

    async def resume_rest(self, jobs: Collection[str] = ()) -> int:
        """Drives every open run that nobody drives, but for those of `jobs`, which ask for theirs.

        Answers how many those are. Runs that one tenant has more of than it may have now are all taken up.
        """
        resumed = 0
        for record in list(self._records.values()):
            if not record.driven and record.flow.job not in jobs:
                self._drive_alone(record)
                resumed += 1
        await trio.lowlevel.checkpoint()
        return resumed

    async def adopt(self, row: RunRow) -> None:
        """Takes up an open run that has come into the store in another way than through this service."""
        record = recorded(row)
        self._open.found(record)
        self._beat()
        self._drive_alone(record)

    # From start to end

    async def start(self, request: RunRequest, *, budget: Scope | None = None) -> RunView:
        """Starts a run and returns as soon as it exists. `budget` is the scope above it, its tenant's if not given.

        Raises `DuplicateRun`, `InvalidLimits`, `UnknownAgent`, `UnknownModel`, `QueueFull` where the tenant has as many
        runs as it may, `SessionBusy` where a run of its session is open, `CannotContinue` where the session cannot go
        on like this, `Draining` after `close`, and `JournalLost` where the first event could not be kept. Nothing was
        created then.
        """
        if request.run:
            check_name("run", request.run)
        if request.session:
            check_name("session", request.session)
        record = await self._create(request, Terms(budget=budget), counted=True)
        try:
            self._nursery.start_soon(self._drive, record)
        except RuntimeError:  # the nursery has ended: the run must still get its closing event
            record.cancel("cancelled", SHUTTING_DOWN, "parent")
            await self._drive(record)
            raise
        return record.view()

    async def run_to_end(
        self,
        request: RunRequest,
        *,
        budget: Scope | None = None,
        agent: AgentSpec | None = None,
        through: Callable[[ModelPort], ModelPort] = lambda port: port,
    ) -> RunResult:
        """The result of the run of this id, for work that bounds itself and may be done again after a restart.

        A run that nobody knows is created; one that was left open is taken up; both are driven in the caller's task,
        and cancelling that task cancels the run. One that somebody drives is waited for, and one that has ended is
        answered from its log. Where a run was not created here, `budget` hears what it has used so far.

        The run takes none of its tenant's places. `agent` stands in for the one that the request asks for, `through`
        wraps the run's model. Raises as `start` does, except `QueueFull`, and `RunLeft` where the run was left open.
        """
        known = self._records.get(request.run)
        if known is not None and known.driven:
            self._must_be_same(known.flow, request)
            await known.wait()
            return _result(known)
        terms = Terms(agent=agent, budget=budget, through=through, charge=known is not None)
        if known is None:
            try:
                record = await self._create(request, terms, counted=False)
            except DuplicateRun:
                return await self._answered(request, budget)
        else:
            self._must_be_same(known.flow, request)
            self._refuse_after_close()
            record = known
            record.terms = terms
            self._open.driven(record)
        await self._drive(record)
        return _result(record)

    async def wait(self, run: str) -> RunDetail:
        """The run, when it has ended. Raises `Draining` where this process ends before it."""
        record = self._records.get(run)
        if record is None:
            return await self.detail(run)
        await record.wait()
        if record.detail is None:
            raise Draining(f"{SHUTTING_DOWN}; run {run} stays open and goes on with the next one")
        return record.detail

    # Seen

    async def view(self, run: str) -> RunView:
        """The run in a list."""
        record = self._records.get(run)
        if record is None:
            return view_of(await self._row(run))
        await trio.lowlevel.checkpoint()
        return record.view()

    async def detail(self, run: str) -> RunDetail:
        """The run, whole."""
        record = self._records.get(run)
        if record is None:
            row = await self._row(run)
            return ended_detail(row, await read_run(self._store, row))
        await trio.lowlevel.checkpoint()
        return record.whole()

    async def page(
        self,
        *,
        observed: frozenset[Observed] = frozenset(),
        tenant: str = "",
        job: str = "",
        session: str = "",
        cursor: str = "",
        size: int = 100,
        within: str = "",
    ) -> RunPage:
        """Runs that match, the newest first; see `orchestrator.runs.page`."""
        return await self._pages.page(
            RunFilter(
                observed=observed, tenant=tenant, job=job, session=session, cursor=cursor, size=size, within=within
            )
        )

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state; of all tenants where none is named."""
        return await self._pages.states(tenant)

    async def events(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; see `orchestrator.runs.watching`."""
        row = await self._row(run)
        with self._ended.kept(row.session):
            watching = watch_run(self._store, row, lambda: self._records.get(run), after, follow=follow)
            async with aclosing(watching) as events:
                async for event in events:
                    yield event

    def statistics(self) -> RunStatistics:
        """The open runs at this moment. Those that nobody drives yet are in `states` alone."""
        return RunStatistics(
            states=count_states(self._records.values()),
            live=self._open.live,
            driven=self._limiter.borrowed_tokens,
            draining=self._closed,
        )

    # Told

    async def cancel(self, run: str, reason: Taken = "cancelled", *, key: str = "") -> RunView:
        """Acknowledges the cancellation; the run is over when its view says so. Whatever its `key`, one is enough."""
        record = self._records.get(run)
        if record is None:
            return await self.view(run)
        await self._outside.cancel(record, reason)
        if not record.driven and not self._closed:
            self._drive_alone(record)
        return record.view()

    async def message(self, run: str, content: str, *, key: str = "") -> RunView:
        """Says something to the run while it works. Raises `RunOver`, `InvalidLimits`."""
        record = await self._told(run)
        await self._outside.message(record, content, key)
        return record.view()

    async def grant(self, run: str, limits: Limits, *, key: str = "") -> RunView:
        """Gives the run other limits of its own, field by field. Raises `RunOver`, `InvalidLimits`."""
        record = await self._told(run)
        await self._outside.grant(record, limits, key)
        return record.view()

    # The end

    def configure(self, config: RunsConfig) -> None:
        """Puts other bounds in force. No run that exists is sent away, whatever they are."""
        self._config = config
        self._limiter.total_tokens = config.max_live
        self._room.per_tenant, self._room.in_all = config.per_tenant, config.in_all
        self._ended.forget(config.keep_ended)

    def close(self) -> None:
        """Nothing new is taken from here on; what is live goes on."""
        self._closed = True

    async def drain(self, until: float = math.inf) -> int:
        """Closes and waits till all runs have ended, or until `until` on trio's clock; answers how many are left."""
        self.close()
        with trio.move_on_at(until):
            await self._open.none_live()
        return self._open.live

    async def end_all(self, message: str = SHUTTING_DOWN) -> None:
        """Drives nothing any more, and returns when that is so.

        In a store that is durable, what has not ended stays open for the next process. In another one it is taken
        away, with `message` in its closing event.
        """
        self.close()
        self._last_words = message
        if self._store.durable:
            self._leave_for_good()
        else:
            for record in list(self._records.values()):
                record.cancel("cancelled", message, "parent")
        await self._open.none_live()
        await self._executor.stop()

    # Inside

    async def _create(self, request: RunRequest, terms: Terms, *, counted: bool) -> RunRecord:
        self._refuse_after_close()
        run = request.run or secrets.token_hex(8)
        session = request.session or run
        undo: list[Callable[[], None]] = [self._open.reserve(run, session)]
        try:
            self._beat()
            going = await self._creation.session(session, request.tenant) if request.session else None
            before = None if going is None else going.last
            plan = plan_run(request, run, self._catalogue(), trio.current_time(), agent=terms.agent, before=before)
            flow = plan.flow
            if counted:
                self._room.enter(flow.tenant, trio.current_time())
                undo.append(lambda: self._room.abandon(flow.tenant, trio.current_time()))
            undo.append(lambda: self._models.ended(flow))
            budget = self._parent(flow.tenant) if terms.budget is None else terms.budget
            record = RunRecord(flow, session, plan.priority, terms, counted=counted)
            self._taking_up.model(record)
            await self._creation.create(record, request.task, plan, budget, going)
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        self._open.created(record)
        if self._last_words is not None and not self._store.durable:
            record.cancel("cancelled", self._last_words, "parent")
        return record

    def _refuse_after_close(self) -> None:
        if self._closed:
            raise Draining(f"{SHUTTING_DOWN} and starts nothing new")

    async def _answered(self, request: RunRequest, budget: Scope | None) -> RunResult:
        row = await self._store.run(request.run) if request.run else None
        if row is None or row.open:
            raise DuplicateRun(f"there is a run {request.run} already")
        self._must_be_same(Flow(row.tenant, row.job, row.run), request)
        snapshot = (await read_run(self._store, row)).snapshot
        if budget is not None:
            budget.used += snapshot.used
            budget.unknown += held(snapshot)
        return result_of(snapshot)

    def _must_be_same(self, flow: Flow, request: RunRequest) -> None:
        if (flow.tenant, flow.job) != (request.tenant, request.job):
            raise DuplicateRun(f"there is a run {flow.run} already, and it is not this one")

    def _drive_alone(self, record: RunRecord) -> None:
        self._open.driven(record)
        record.counted = True
        self._room.admit(record.flow.tenant, trio.current_time())
        self._nursery.start_soon(self._drive, record)

    async def _drive(self, record: RunRecord) -> None:
        try:
            await self._driving.drive(record)
        finally:
            record.end(self._wall())
            self._over(record)

    def _over(self, record: RunRecord) -> None:
        if record.terms.model is not None:
            self._models.ended(record.flow)
        if record.counted:
            self._room.leave(record.flow.tenant, trio.current_time())
        if not self._store.durable:
            self._ended.add(record.session)
        self._open.over(record)
        self._ended.forget(self._config.keep_ended)

    def _leave_for_good(self) -> None:
        self._driving.leaving = True
        self._leave_all()

    def _leave_all(self) -> None:
        for record in list(self._records.values()):
            record.leave()

    async def _row(self, run: str) -> RunRow:
        row = await self._store.run(run)
        if row is None:
            raise UnknownRun(f"there is no run {run}")
        return row

    async def _told(self, run: str) -> RunRecord:
        record = self._records.get(run)
        if record is None:
            await self._row(run)
            raise run_over(run)
        return record

    def _beat(self) -> None:
        if not self._beating and self._store.durable:
            self._beating = True
            self._nursery.start_soon(self._executor.run)

    def _clock(self) -> Callable[[], float]:
        began, now = self._wall(), trio.current_time()
        return lambda: began + (trio.current_time() - now)

    def __repr__(self) -> str:
        return f"<RunService {self._open!r}{' closed' if self._closed else ''}>"


def _result(record: RunRecord) -> RunResult:
    if record.result is None:
        raise RunLeft(record.problem or f"{SHUTTING_DOWN}; run {record.run} stays open")
    return record.result
