"""The pool of worker processes: which run is driven by which worker, and what workers ask of the daemon for their runs.

It implements `orchestrator.runs.means.Elsewhere` for the run service, and `orchestrator.api.worker_services.Workers`
for the HTTP surface.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence

import trio
from msgspec import Raw
from msgspec.structs import replace

from agents.errors import Draining
from agents.events import Event, ToolLate, UnknownEvent, decode, encode
from agents.loop import AgentRun
from agents.port import Journal
from agents.reserve import when_room
from agents.snapshot import SessionSnapshot
from agents.spec import AgentSpec
from orchestrator.pools.claims import Claims, Given
from orchestrator.pools.errors import NotYet
from orchestrator.pools.material import views_above
from orchestrator.pools.remote_calls import lost
from orchestrator.pools.remote_run import RemoteRun
from orchestrator.pools.seat import Seat
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.means import Means
from orchestrator.runs.record import RunRecord
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
    News,
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


HOLDS = 6
"""So many polls fit into a lease at least, so that answers can get lost before a worker counts as gone."""


class Pool:
    """All worker processes of one daemon. `tools` are the tables of their tools as they are in force; `lease` is in
    seconds.
    """

    def __init__(self, tools: Callable[[], ToolTables], lease: float) -> None:
        self._tools = tools
        self._lease = lease
        self._runs: dict[str, RemoteRun] = {}
        self._records: Mapping[str, RunRecord] = {}
        self._means: Means | None = None
        self._made: Claims | None = None
        self._closed = self._ending = False
        self._rung: dict[str, trio.Event] = {}
        self._changed = trio.Event()

    # For the run service

    def serve(self, means: Means, records: Mapping[str, RunRecord]) -> None:
        """See `orchestrator.runs.means.Elsewhere`."""
        self._means, self._records = means, records
        self._made = Claims(secrets.token_hex(4), self._lease, trio.current_time(), self._may_be_held)

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
        return RemoteRun(self, self._means, record, run, journal, log, snapshot)

    async def run(self) -> None:
        """Notices that workers are gone; until `close`."""
        while not self._closed:
            now = trio.current_time()
            for run in self._claims.expire(now):
                self._lost(run)
            self._assign()
            self._changed = trio.Event()
            with trio.move_on_at(self._claims.due(now)):
                await self._changed.wait()

    def close(self) -> None:
        """See `orchestrator.runs.means.Elsewhere`."""
        self._closed = True
        for run in list(self._runs.values()):
            if run.claimed:
                run.lost()
        self._changed.set()
        for name in list(self._rung):
            self._ring(name)

    # For its runs

    def offer(self, run: RemoteRun) -> None:
        """See `Crew`."""
        self._runs[run.run] = run
        if self._closed:
            return
        given = self._claims.offer(run.run, older=run.older)
        if given is not None:
            run.given(begun=given.begun)
            return
        self._assign()
        self._changed.set()

    def withdraw(self, run: RemoteRun) -> None:
        """See `Crew`."""
        if self._runs.get(run.run) is run:
            del self._runs[run.run]
        self._claims.withdraw(run.run)

    def take_back(self, run: str) -> None:
        """See `Crew`."""
        self._claims.take_back(run)

    def over(self, run: str) -> None:
        """See `Crew`."""
        self._claims.over(run)

    def tell(self, run: str, events: Sequence[Event]) -> None:
        """See `Crew`."""
        seat = self._claims.holder(run)
        if seat is not None:
            seat.tell(News(run=run, events=tuple(Raw(encode(event)) for event in events)))
            self._ring(seat.name)

    def leave_soon(self) -> None:
        """See `Crew`."""
        if not self._ending:
            self._ending = True
            for name in list(self._rung):
                self._ring(name)

    # For workers

    async def poll(self, request: PollRequest) -> PollAnswer:
        """A worker's sign of life. Of several polls of one worker at once only the latest is answered with anything."""
        self._refuse_after_close()
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        room = 0 if request.ends or self._ending else request.room
        seat, leave, adopted, dropped = self._claims.hear(request.worker, room, request.holding, request.heard, now)
        self._changed.set()
        self._ring(seat.name)  # an earlier poll of its own is over
        for given in adopted:
            self._give(given)
        for run in dropped:
            self._lost(run)
        self._assign()
        turn, deadline = seat.turn, now + min(request.seconds, self._lease / HOLDS)
        try:
            while True:
                answer = self._answer(seat, request, leave)
                if answer is not None or self._closed or seat.turn != turn or trio.current_time() >= deadline:
                    break
                rung = self._rung.setdefault(seat.name, trio.Event())
                with trio.move_on_at(deadline):
                    await rung.wait()
        finally:
            if seat.turn == turn:
                self._end_poll(seat, request)
        self._refuse_after_close()
        if answer is None or seat.turn != turn:
            answer = PollAnswer(lease_seconds=self._lease, tools=self._tools().digest, heard=request.heard)
        seat.told_soon = self._ending
        return replace(answer, leave_soon=self._ending)

    def _answer(self, seat: Seat, request: PollRequest, leave: list[str]) -> PollAnswer | None:
        """None where there is nothing to say."""
        take = self._claims.new(seat, request.holding)
        news, heard = seat.news()
        if not (take or leave or news or (self._ending and not seat.told_soon)):
            return None
        return PollAnswer(
            lease_seconds=self._lease,
            tools=self._tools().digest,
            take=take,
            leave=tuple(leave),
            news=news,
            heard=max(heard, request.heard),
        )

    def _end_poll(self, seat: Seat, request: PollRequest) -> None:
        self._claims.answered(seat, trio.current_time())
        self._rung.pop(seat.name, None)
        if request.ends and not request.holding:
            for run in tuple(seat.runs):
                self._claims.free(run)
                self._lost(run)
            self._claims.gone(seat)
        self._changed.set()

    def tools(self) -> ToolTables:
        """The tables of all tools."""
        return self._tools()

    def seen(self) -> WorkerList:
        """All workers, and how many runs wait for one."""
        now = trio.current_time()
        seats = sorted(self._claims.seats.values(), key=lambda seat: seat.name)
        return WorkerList(workers=tuple(seat.view(now) for seat in seats), waiting=self._claims.waiting)

    async def begin(self, run: str, request: ClaimRequest) -> RunMaterial:
        """What a worker needs to drive the run."""
        claimed = self._claimed(run, request.claim)
        self._claims.of(run, request.claim, trio.current_time()).begun = True
        material = await claimed.begin()
        self._claimed(run, request.claim)
        return material

    async def append(self, run: str, request: AppendRequest) -> AppendAnswer:
        """Appends to the run's log, under the claim."""
        claimed = self._claimed(run, request.claim)
        self._claims.of(run, request.claim, trio.current_time()).begun = True
        try:
            answer = await claimed.log.append(request)
        finally:
            claimed.look()
        return replace(answer, above=views_above(claimed.scope))

    async def room(self, run: str, request: RoomRequest) -> RoomAnswer:
        """Waits while only others' reservations are in the way."""
        scope = self._claimed(run, request.claim).scope
        with trio.move_on_after(request.seconds):
            await when_room(lambda: scope.check(request.need))
        return RoomAnswer(above=views_above(self._claimed(run, request.claim).scope))

    async def call(self, run: str, request: WorkerCallRequest) -> WorkerCallAnswer:
        """Makes the model call, or joins it."""
        claimed = self._claimed(run, request.claim)
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
        return await self._claimed(run, request.claim).calls.leave(request.key)

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
        self._refuse_after_close()
        self._claims.of(run, request.claim, trio.current_time())
        self._claims.free(run)
        held = self._runs.get(run)
        if held is not None:
            held.lost()
            held.left(request)
        return Done()

    async def start_child(self, run: str, request: ChildStart) -> ChildAnswer:
        """Starts a run for a tool call of the run, or joins it."""
        if request.child.parent != run:
            return ChildAnswer(refused=f"run {run} starts no runs for {request.child.parent}")
        return await self._claimed(run, request.claim).children.start(request.child)

    async def step_child(self, run: str, request: ChildStep) -> ChildAnswer:
        """Waits for such a run, takes it away or lets go of it."""
        return await self._claimed(run, request.claim).children.step(request)

    # Inside

    @property
    def _claims(self) -> Claims:
        assert self._made is not None, "this pool serves nobody yet"
        return self._made

    def _refuse_after_close(self) -> None:
        if self._closed:
            raise Draining("the daemon is shutting down")

    def _claimed(self, run: str, claim: str) -> RemoteRun:
        """The run, where this claim to it counts. Raises `ClaimGone`, `NotYet`, `Draining`."""
        self._refuse_after_close()
        self._claims.of(run, claim, trio.current_time())
        held = self._runs.get(run)
        if held is None or held.nursery is None:
            raise NotYet(f"run {run} is not driven here yet")
        return held

    def _may_be_held(self, run: str) -> bool:
        record = self._records.get(run)
        return record is not None and not record.over and (record.live is None or isinstance(record.live, RemoteRun))

    def _assign(self) -> None:
        if self._closed or self._ending:
            return
        for given in self._claims.assign(trio.current_time()):
            self._give(given)
            self._ring(given.worker)

    def _give(self, given: Given) -> None:
        run = self._runs.get(given.run)
        if run is not None:
            run.given(begun=given.begun)

    def _lost(self, run: str) -> None:
        """The claim to the run is gone; it wants another worker, if it is driven here."""
        held = self._runs.get(run)
        if held is not None:
            held.lost()
            self._claims.offer(run, older=False)
            self._changed.set()

    def _ring(self, worker: str) -> None:
        rung = self._rung.pop(worker, None)
        if rung is not None:
            rung.set()

    def __repr__(self) -> str:
        return f"<Pool {len(self._runs)} runs, {self._made and len(self._made.seats)} workers>"
