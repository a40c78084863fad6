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
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping

import trio

from agents.amounts import Limits
from agents.budget import Scope
from agents.loop import Taken
from agents.observation import Observed
from agents.port import Journal, ModelPort, Models
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.runs.approvals import ApprovalDesk
from orchestrator.runs.children import Children
from orchestrator.runs.config import DEFAULTS, RunsConfig
from orchestrator.runs.doubt import Doubts
from orchestrator.runs.executor import Executor
from orchestrator.runs.expiry import Expiry
from orchestrator.runs.live_runs import SHUTTING_DOWN, LiveRuns
from orchestrator.runs.means import Elsewhere, Means
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.outside import Outside
from orchestrator.runs.page import RunFilter, RunPages, RunStatistics
from orchestrator.runs.record import RunRecord, Terms
from orchestrator.runs.recovery import open_runs, recorded
from orchestrator.runs.seen import SeenRuns
from orchestrator.runs.spending import Charging
from orchestrator.runs.starting import Starting
from orchestrator.runs.taking_up import TakingUp
from orchestrator.store.base import RunRow, Store
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView

__all__ = ["RunService", "RunsConfig"]


class RunService:
    """Implements `orchestrator.api.services.Runs`. Runs live in `nursery`; cancelling it closes them as cancelled, or,
    where the store is durable, leaves them open.

    `store` keeps them, one of this service's own in memory if not given; no other process has it, so what others held
    is free. `holder` is what this service is called there as an executor. `journal` wraps a run's log; `parent` gives
    the budget above a tenant's runs, `wall` seconds since the epoch. `pool` has workers elsewhere that drive them.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        store: Store | None = None,
        holder: str = "",
        config: RunsConfig = DEFAULTS,
        journal: Callable[[Journal], Journal] = lambda log: log,
        parent: Callable[[str], Scope | None] = lambda tenant: None,
        wall: Callable[[], float] = time.time,
        pool: Elsewhere | None = None,
    ) -> None:
        self.store: Store = MemoryStore(wall) if store is None else store
        self.executor = Executor(self.store, holder=holder)
        self._wall = wall
        self._books = OpenRuns()
        self._records = self._books.records
        means = Means(
            self.store,
            self.executor,
            models=models,
            catalogue=catalogue,
            journal=journal,
            parent=parent,
            wall=wall,
            pool=pool,
        )
        self._pool = pool
        if pool is not None:
            pool.serve(means, self._records)
            nursery.start_soon(pool.run)
        taking_up = TakingUp(means)
        self._live = LiveRuns(nursery, means, self._books, taking_up, config)
        doubts = Doubts(nursery, means, self._books, self._live)
        self._starting = Starting(means, self._books, self._live, taking_up, doubts)
        self._children = Children(nursery, means, self._books, self._live, self._starting)
        self._seen = SeenRuns(self.store, self._books, self._live.ended)
        self._outside = Outside(means)
        self._pages = RunPages(self.store, self._records)
        self.approvals = ApprovalDesk(self.store, self._records, wall, self._live.wake)
        self._expiry = Expiry(nursery, self._records, wall, self.approvals.expire)
        self._books.on_asked = self._asked

    def _asked(self, record: RunRecord) -> None:
        self._expiry.look(record)
        self.approvals.look()

    def holds(self, session: str) -> bool:
        """Whether a run of the session is open here."""
        return session in self._books.busy

    # After another process

    async def recover(self) -> int:
        """Reads what an earlier process left open, before anything is driven; answers how many runs that is.

        Each is visible from here on, and takes its session. Model calls that nobody knows the end of are in the ledger
        as lost. Raises `StoreError`.
        """
        self._live.beat()
        self._expiry.hold()
        await self.executor.announce()
        for record in await open_runs(self.store, self._wall):
            if record.run not in self._records:
                self._books.found(record)
        return len(self._records)

    async def resume_rest(self, jobs: Collection[str] = ()) -> int:
        """Drives every open run that nobody drives, but for those of `jobs`, which ask for theirs.

        Answers how many those are. Runs that one tenant has more of than it may have now are all taken up.
        """
        await trio.lowlevel.checkpoint()
        driven = self._live.resume(jobs)
        self._children.end_orphans()
        self._expiry.go()
        return driven

    async def adopt(self, row: RunRow) -> None:
        """Takes up an open run that has come into the store in another way than through this service."""
        await trio.lowlevel.checkpoint()
        self._live.beat()
        self._live.alone(self._books.found(recorded(row)))

    # From start to end

    async def start(self, request: RunRequest, *, budget: Scope | None = None) -> RunView:
        """Starts a run and returns as soon as it exists. `budget` is the scope above it, its tenant's if not given.

        Raises `DuplicateRun`, `InvalidLimits`, `UnknownAgent`, `UnknownModel`, `QueueFull` where the tenant has as many
        runs as it may, `SessionBusy` where a run of its session is open, `CannotContinue` where the session cannot go
        on like this, `Draining` after `close`, and `JournalLost` where the first event could not be kept. Nothing was
        created then, unless the store gave no answer in time: then it may have been, and is driven once that is known.
        """
        return (await self._starting.start(request, Terms(budget=budget))).view()

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
        answered from its log. What a run has used before is for `charge` to tell `budget`.

        The run takes none of its tenant's places. `agent` stands in for the one that the request asks for, `through`
        wraps the run's model. Raises as `start` does, except `QueueFull`, and `RunLeft` where the run was left open.
        """
        return await self._starting.to_end(request, Terms(agent=agent, budget=budget, through=through))

    async def charge(self, budget: Scope, runs: Iterable[str], *, tenant: str, job: str) -> None:
        """Counts into a budget that was made anew what these runs of a job have used so far, and may have used besides.

        Once, before the first of them is asked for: then nothing can be spent twice. Those that nobody knows are passed
        over. Raises `StoreError`.
        """
        await Charging(self.store, self._records, budget, tenant, job).charge(runs)

    async def wait(self, run: str) -> RunDetail:
        """The run, when it has ended. Raises `Draining` where this process ends before it."""
        return await self._seen.at_its_end(run)

    # Seen

    async def view(self, run: str) -> RunView:
        """The run in a list. Raises `UnknownRun`, as all do that are given a run."""
        return await self._seen.view(run)

    async def detail(self, run: str) -> RunDetail:
        """The run, whole."""
        return await self._seen.detail(run)

    def events(
        self, run: str, after: int = 0, *, follow: bool = True, output: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; see `orchestrator.runs.watching`."""
        return self._seen.events(run, after, follow=follow, output=output)

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
        wanted = RunFilter(
            observed=observed, tenant=tenant, job=job, session=session, cursor=cursor, size=size, within=within
        )
        return await self._pages.page(wanted)

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state; of all tenants where none is named."""
        return await self._pages.states(tenant)

    @property
    def open(self) -> Mapping[str, RunRecord]:
        """The open runs by their ids: to look at."""
        return self._records

    def statistics(self) -> RunStatistics:
        """The open runs at this moment. Those that nobody drives yet are in `states` alone."""
        return self._live.statistics()

    # Told

    async def cancel(self, run: str, reason: Taken = "cancelled", *, key: str = "") -> RunView:
        """Acknowledges the cancellation; the run is over when its view says so. Whatever its `key`, one is enough."""
        if run not in self._records:
            return await self.view(run)
        record = await self._outside.cancel(self._records[run], reason)
        self._live.wake(record)
        if not record.driven and not self._live.closed and record.owner is None:
            self._live.alone(record)
        return record.view()

    async def message(self, run: str, content: str, *, key: str = "") -> RunView:
        """Says something to the run while it works. Raises `RunOver`, `InvalidLimits`."""
        record = self._records.get(run) or await self._seen.over(run)
        self._live.wake(await self._outside.message(record, content, key))
        return record.view()

    async def grant(self, run: str, limits: Limits, *, key: str = "") -> RunView:
        """Gives the run other limits of its own, field by field. Raises `RunOver`, `InvalidLimits`."""
        record = self._records.get(run) or await self._seen.over(run)
        self._live.wake(await self._outside.grant(record, limits, key))
        return record.view()

    # The end

    def configure(self, config: RunsConfig) -> None:
        """Puts other bounds in force. No run that exists is sent away, whatever they are."""
        self._live.configure(config)

    def close(self) -> None:
        """Nothing new is taken from here on; what is live goes on."""
        self._live.closed = True

    def leave_soon(self) -> None:
        """Begins nothing new, neither runs nor calls of runs, and leaves each run open when it has no call under way.

        For a store that is durable: nothing is cut off, and the next process goes on.
        """
        self._live.leave_soon()

    @property
    def left(self) -> int:
        """How many runs this process drove and left open."""
        return self._live.left

    async def drain(self, until: float = math.inf) -> int:
        """Closes and waits till all runs have ended, or until `until` on trio's clock; answers how many are left."""
        self.close()
        with trio.move_on_at(until):
            await self._books.none_live()
        return self._books.live

    async def end_all(self, message: str = SHUTTING_DOWN) -> None:
        """Drives nothing any more, and returns when that is so.

        In a store that is durable, what has not ended stays open for the next process. In another one it is taken
        away, with `message` in its closing event.
        """
        self._expiry.stop()
        if self._pool is not None:
            self._pool.close()
        await self._live.end_all(message)
        self.approvals.close()

    def __repr__(self) -> str:
        return f"<RunService {self._books!r}{' closed' if self._live.closed else ''}>"
