"""The pool of worker processes: which run is driven by which worker, and what workers ask of the daemon for their runs.

It implements `orchestrator.runs.means.Elsewhere` for the run service, and `orchestrator.api.worker_services.Workers`
for the HTTP surface.
"""

from collections.abc import Callable, Mapping

import trio
from msgspec.structs import replace

from agents.events import ToolLate, UnknownEvent, decode, encode
from agents.loop import AgentRun
from agents.port import Journal
from agents.reserve import when_room
from agents.snapshot import SessionSnapshot
from agents.spec import AgentSpec
from orchestrator.pools.material import views_above
from orchestrator.pools.remote_calls import lost
from orchestrator.pools.remote_run import RemoteRun
from orchestrator.pools.roster import Roster
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.means import Means
from orchestrator.runs.record import RunRecord
from orchestrator.views.queue import PoolView
from orchestrator.views.workers import (
    AppendAnswer,
    AppendRequest,
    CallLeave,
    ChildAnswer,
    ChildStart,
    ChildStep,
    ClaimRequest,
    Done,
    LateRequest,
    LeftRequest,
    PollAnswer,
    PollRequest,
    RoomAnswer,
    RoomRequest,
    RunMaterial,
    ToolTables,
    WorkerCallAnswer,
    WorkerCallRequest,
    WorkerList,
)

OF_SERVER = "__"
"""Stands between the name of an MCP server and that of one of its tools."""

HINT = "start one: headrace worker --daemon URL"
"""What helps where no worker is connected."""


class Pool:
    """All worker processes of one daemon. `tools` are the tables of their tools as they are in force; `lease` is in
    seconds; `hint` says to people how workers come.
    """

    def __init__(self, tools: Callable[[], ToolTables], lease: float, hint: str = HINT) -> None:
        self._tools = tools
        self._roster = Roster(lambda: tools().digest, lease, hint)
        self._records: Mapping[str, RunRecord] = {}
        self._means: Means | None = None

    # For the run service

    def serve(self, means: Means, records: Mapping[str, RunRecord]) -> None:
        """See `orchestrator.runs.means.Elsewhere`."""
        self._means, self._records = means, records
        self._roster.serve(records)

    def drives(self, agent: AgentSpec) -> bool:
        """Workers make tools from their tables, so it has no others."""
        known = self._tools().tools
        return all(tool.name in known or tool.name.partition(OF_SERVER)[0] in known for tool in agent.tools)

    def remote(
        self,
        record: RunRecord,
        run: AgentRun,
        journal: SessionJournal,
        log: Journal,
        snapshot: SessionSnapshot | None,
    ) -> RemoteRun:
        """See `orchestrator.runs.means.Elsewhere`."""
        assert self._means is not None
        return RemoteRun(self._roster, self._means, record, run, journal, log, snapshot)

    async def run(self) -> None:
        """Notices that workers are gone; until `close`."""
        await self._roster.run()

    def close(self) -> None:
        """See `orchestrator.runs.means.Elsewhere`."""
        self._roster.close()

    # For workers

    async def poll(self, request: PollRequest) -> PollAnswer:
        """A worker's sign of life. Of several polls of one worker at once only the latest is answered with anything."""
        return await self._roster.poll(request)

    def tools(self) -> ToolTables:
        """The tables of all tools."""
        return self._tools()

    def seen(self) -> WorkerList:
        """All workers, and how many runs wait for one."""
        return self._roster.seen()

    def view(self) -> PoolView:
        """All of it in a few numbers."""
        return self._roster.view()

    async def begin(self, run: str, request: ClaimRequest) -> RunMaterial:
        """What a worker needs to drive the run."""
        claimed = self._roster.claimed(run, request.claim, begun=True)
        material = await claimed.begin()
        self._roster.claimed(run, request.claim)
        return material

    async def append(self, run: str, request: AppendRequest) -> AppendAnswer:
        """Appends to the run's log, under the claim."""
        claimed = self._roster.claimed(run, request.claim, begun=True)
        try:
            answer = await claimed.log.append(request)
        finally:
            claimed.look()
        return replace(answer, above=views_above(claimed.scope))

    async def room(self, run: str, request: RoomRequest) -> RoomAnswer:
        """Waits while only others' reservations are in the way."""
        scope = self._roster.claimed(run, request.claim).scope
        with trio.move_on_after(request.seconds):
            await when_room(lambda: scope.check(request.need))
        return RoomAnswer(above=views_above(self._roster.claimed(run, request.claim).scope))

    async def call(self, run: str, request: WorkerCallRequest) -> WorkerCallAnswer:
        """Makes the model call, or joins it."""
        claimed = self._roster.claimed(run, request.claim)
        reserved = claimed.books.reservation(request.key)
        assert claimed.nursery is not None
        call = claimed.calls.join(claimed.nursery, request, None if reserved is None else reserved.need)
        if call is None:
            return lost(None)
        with trio.move_on_after(request.seconds):
            await call.done.wait()
        return call.answer()

    async def leave_call(self, run: str, request: CallLeave) -> WorkerCallAnswer:
        """Nobody waits for the call any more."""
        return await self._roster.claimed(run, request.claim).calls.leave(request.key)

    async def late(self, run: str, request: LateRequest) -> Done:
        """Keeps evidence, whoever drives the run by now."""
        event = decode(bytes(request.event))
        if not isinstance(event, ToolLate) or event.run != run:
            raise UnknownEvent(f"this is no late result of a call of run {run}")
        assert self._means is not None
        store, record = self._means.store, self._records.get(run)
        row = await store.run(run) if record is None else None
        session = record.session if record is not None else "" if row is None else row.session
        if session:
            await store.append_external(session, f"late:{event.key}", [encode(event)])
        if record is not None:
            record.grew((event,))
        return Done()

    async def left(self, run: str, request: LeftRequest) -> Done:
        """The worker drives the run no longer."""
        await trio.lowlevel.checkpoint()
        self._roster.left(run, request)
        return Done()

    async def start_child(self, run: str, request: ChildStart) -> ChildAnswer:
        """Starts a run for a tool call of the run, or joins it."""
        if request.child.parent != run:
            return ChildAnswer(refused=f"run {run} starts no runs for {request.child.parent}")
        return await self._roster.claimed(run, request.claim).children.start(request.child)

    async def step_child(self, run: str, request: ChildStep) -> ChildAnswer:
        """Waits for such a run, takes it away or lets go of it."""
        return await self._roster.claimed(run, request.claim).children.step(request)

    def __repr__(self) -> str:
        return f"<Pool {self._roster!r}>"
