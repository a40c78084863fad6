"""The daemon's runs: started, seen, watched, cancelled and drained by id.

A run exists when its first event is in its log, and `start` returns then. At most `max_live` runs are driven at once,
the others are queued in order of arrival. What clients start one by one is capped per tenant; the runs of a job are
not, since its workers bound them. Ended runs stay readable until `keep_ended` others have ended after them; then
nobody knows them any more, so memory is bounded however many runs pass through.

Nothing here survives a restart: a daemon that ends closes its runs as cancelled, and says why.
"""

import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import trio
from msgspec import Struct

from agents.budget import Scope
from agents.errors import Draining, InvalidLimits
from agents.log import JournalLost
from agents.loop import AgentRun, Taken
from agents.observation import Observed
from agents.port import Flow, Journal, ModelPort, Models
from agents.result import RunResult
from agents.runtime import DuplicateRun, UnknownRun
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.policy.run_room import RunRoom
from orchestrator.runs.log import RunLog
from orchestrator.runs.page import RunFilter, RunStatistics, count_states, page
from orchestrator.runs.plan import RunPlan, plan_run
from orchestrator.runs.record import RunRecord
from orchestrator.views.names import check_name
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView

SHUTTING_DOWN = "the daemon is shutting down"


class RunsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs are driven at once, how many a tenant and all together may have, how many that ended are kept.

    Raises `InvalidLimits`.
    """

    max_live: int = 10_000
    per_tenant: int = 10_000
    in_all: int = 50_000
    keep_ended: int = 1_000

    def __post_init__(self) -> None:
        for field, least in (("max_live", 1), ("per_tenant", 1), ("in_all", 1), ("keep_ended", 0)):
            value = getattr(self, field)
            if type(value) is not int or value < least:
                raise InvalidLimits(field, f"a whole number, {least} or more, not {value!r}")


DEFAULTS = RunsConfig()


class RunService:
    """Implements `orchestrator.api.services.Runs`. Runs live in `nursery`; cancelling it closes them as cancelled.

    `journal` wraps a run's log; `parent` gives the budget above a tenant's runs, `wall` seconds since the epoch.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        config: RunsConfig = DEFAULTS,
        journal: Callable[[Journal], Journal] = lambda log: log,
        parent: Callable[[str], Scope | None] = lambda tenant: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._nursery = nursery
        self._models = models
        self._catalogue, self._config, self._wall = catalogue, config, wall
        self._journal, self._parent = journal, parent
        self._limiter = trio.CapacityLimiter(config.max_live)
        self._room = RunRoom(config.per_tenant, config.in_all)
        self._records: dict[str, RunRecord] = {}
        self._starting: set[str] = set()
        self._ended: deque[str] = deque()
        self._numbered = 0
        self._open = 0
        self._all_ended: trio.Event | None = None
        self._closed = False
        self._last_words: str | None = None

    async def start(self, request: RunRequest, *, budget: Scope | None = None) -> RunView:
        """Starts a run and returns as soon as it exists. `budget` is the scope above it, its tenant's if not given.

        Raises `DuplicateRun`, `InvalidLimits`, `UnknownAgent`, `UnknownModel`, `QueueFull` where the tenant has as many
        runs as it may, `Draining` after `close`, and `JournalLost` where the first event could not be kept. Nothing
        was created then.
        """
        if request.run:
            check_name("run", request.run)
        record = await self._create(request, budget, counted=True)
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
        """Runs in the caller's task, from start to result; cancelling that task cancels the run.

        For work that bounds itself: the run takes none of its tenant's places. `agent` stands in for the one that the
        request asks for, `through` wraps the run's model. Raises as `start` does, except `QueueFull`.
        """
        record = await self._create(request, budget, counted=False, agent=agent, through=through)
        await self._drive(record)
        return record.result

    async def view(self, run: str) -> RunView:
        return self._find(run).view()

    async def detail(self, run: str) -> RunDetail:
        return self._find(run).detail()

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
        wanted = RunFilter(observed=observed, tenant=tenant, job=job, cursor=cursor, size=size, within=within)
        return page(reversed(self._records.values()), wanted)

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state; of all tenants where none is named."""
        return count_states(r for r in self._records.values() if not tenant or r.flow.tenant == tenant)

    async def cancel(self, run: str, reason: Taken = "cancelled", *, key: str = "") -> RunView:
        """Acknowledges the cancellation; the run is over when its view says so."""
        record = self._find(run)
        record.cancel(reason)
        await trio.lowlevel.checkpoint()
        return record.view()

    async def wait(self, run: str) -> RunDetail:
        """The run, when it has ended."""
        record = self._find(run)
        await record.wait()
        return record.detail()

    async def events(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; see `RunLog.watch`."""
        async with aclosing(self._find(run).log.watch(after, follow=follow)) as events:
            async for event in events:
                yield event

    def statistics(self) -> RunStatistics:
        """All runs at this moment."""
        return RunStatistics(
            states=count_states(self._records.values()),
            live=self._open,
            driven=self._limiter.borrowed_tokens,
            draining=self._closed,
        )

    def configure(self, config: RunsConfig) -> None:
        """Puts other bounds in force. No run that exists is sent away, whatever they are."""
        self._config = config
        self._limiter.total_tokens = config.max_live
        self._room.per_tenant, self._room.in_all = config.per_tenant, config.in_all
        self._forget()

    def close(self) -> None:
        """Nothing new is taken from here on; what is live goes on."""
        self._closed = True

    async def drain(self, until: float = math.inf) -> int:
        """Closes and waits till all runs have ended, or until `until` on trio's clock; answers how many are left."""
        self.close()
        with trio.move_on_at(until):
            await self._until_all_ended()
        return self._open

    async def end_all(self, message: str = SHUTTING_DOWN) -> None:
        """Takes away every run that has not ended, with `message` in its closing event, and waits till all are over."""
        self.close()
        self._last_words = message
        for record in list(self._records.values()):
            record.cancel("cancelled", message, "parent")
        await self._until_all_ended()

    async def _create(
        self,
        request: RunRequest,
        budget: Scope | None,
        *,
        counted: bool,
        agent: AgentSpec | None = None,
        through: Callable[[ModelPort], ModelPort] = lambda port: port,
    ) -> RunRecord:
        plan = self._plan(request, agent)
        flow = plan.flow
        if counted:
            self._room.enter(flow.tenant, trio.current_time())
        self._starting.add(flow.run)
        self._open += 1
        try:
            log = RunLog()
            run = AgentRun(
                plan.agent,
                request.task,
                model=through(self._models.port(flow, plan.priority)),
                journal=self._journal(log),
                budget=self._parent(flow.tenant) if budget is None else budget,
                prices=plan.prices,
                run=flow.run,
                priority=plan.priority,
                expiry=plan.expiry,
            )
            record = RunRecord(
                run,
                log,
                flow=flow,
                priority=plan.priority,
                counted=counted,
                created=self._wall(),
                now=trio.current_time(),
            )
            await run.create()
        except BaseException:
            self._leave(flow, self._room.abandon if counted else None)
            raise
        finally:
            self._starting.remove(flow.run)
        self._add(record)
        return record

    def _plan(self, request: RunRequest, agent: AgentSpec | None) -> RunPlan:
        if self._closed:
            raise Draining(f"{SHUTTING_DOWN} and starts nothing new")
        if request.run in self._records or request.run in self._starting:
            raise DuplicateRun(f"there is a run {request.run} already")
        return plan_run(request, self._catalogue(), trio.current_time(), agent=agent)

    async def _drive(self, record: RunRecord) -> None:
        try:
            await record.drive(self._limiter)
        except JournalLost:
            pass  # the run's result says so
        finally:
            record.end(trio.current_time())
            self._remember(record)
            self._leave(record.flow, self._room.leave if record.counted else None)

    def _add(self, record: RunRecord) -> None:
        self._numbered += 1
        record.number = self._numbered
        self._records[record.run] = record
        if self._last_words is not None:
            record.cancel("cancelled", self._last_words, "parent")

    def _remember(self, record: RunRecord) -> None:
        self._ended.append(record.run)
        self._forget()

    def _forget(self) -> None:
        while len(self._ended) > self._config.keep_ended:
            del self._records[self._ended.popleft()]

    def _leave(self, flow: Flow, give_back: Callable[[str, float], None] | None) -> None:
        self._models.ended(flow)
        if give_back is not None:
            give_back(flow.tenant, trio.current_time())
        self._open -= 1
        if not self._open and self._all_ended is not None:
            self._all_ended.set()
            self._all_ended = None

    async def _until_all_ended(self) -> None:
        while self._open:
            if self._all_ended is None:
                self._all_ended = trio.Event()
            await self._all_ended.wait()

    def _find(self, run: str) -> RunRecord:
        try:
            return self._records[run]
        except KeyError:
            raise UnknownRun(f"there is no run {run}") from None

    def __repr__(self) -> str:
        return f"<RunService {self._open} live of {len(self._records)}{' closed' if self._closed else ''}>"
