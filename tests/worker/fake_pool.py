"""A pool in a few lines: runs in memory, a scripted model, budgets without waiting; for tests of the worker alone."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import trio
from msgspec import Raw, Struct, field

from agents.amounts import Amounts
from agents.budget import Exhausted, Reservation, Scope
from agents.errors import ModelError
from agents.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    ToolStarted,
    decode,
    encode,
)
from agents.fold import fold, result_of
from agents.money import Price
from agents.result import RunResult
from agents.scripted import Script, ScriptedModel
from agents.spec import AgentSpec
from orchestrator.views.workers import (
    AgentMaterial,
    AppendAnswer,
    AppendRequest,
    CallFailure,
    CallLeave,
    ChildAnswer,
    ChildStart,
    ChildStep,
    ClaimRequest,
    Done,
    Holding,
    LateRequest,
    LeftRequest,
    News,
    PollAnswer,
    PollRequest,
    RoomAnswer,
    RoomRequest,
    RunMaterial,
    ScopeView,
    ToolTables,
    WorkerCallAnswer,
    WorkerCallRequest,
    WorkerList,
)
from orchestrator.worker.hold import ClaimGone

LEASE = 30.0


class FakeRun(Struct):
    """One run of the pool. `scope` is its own, below the budgets above it."""

    id: str
    agent: AgentSpec
    scope: Scope
    events: list[Event]
    claim: str = ""
    batches: dict[str, int] = {}
    held: dict[str, Reservation] = {}
    left: list[LeftRequest] = []
    ended: trio.Event = field(default_factory=trio.Event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class FakePool:
    """Implements `orchestrator.api.worker_services.Workers`."""

    def __init__(self, script: Script, *, latency: float = 1.0, lease: float = LEASE) -> None:
        self.model = ScriptedModel(script, latency=latency)
        self.lease = lease
        self.runs: dict[str, FakeRun] = {}
        self.waiting: list[str] = []
        self.polls: list[PollRequest] = []
        self.news: list[News] = []
        self.leave: list[str] = []
        self.late_events: list[Event] = []
        self.tables = ToolTables(digest="none", tools={})
        self.leave_soon = False
        self.price: Price | None = None
        self.calls: dict[str, trio.Event] = {}
        self.outcomes: dict[str, WorkerCallAnswer] = {}
        self.children: Callable[[ChildStart | ChildStep], ChildAnswer] = lambda asked: ChildAnswer(refused="none here")
        self._claims = itertools.count(1)
        self._stir = trio.Event()

    def add(self, agent: AgentSpec, task: str = "x", *, above: Scope | None = None, run: str = "") -> FakeRun:
        """A run that waits for a worker."""
        id = run or f"r{len(self.runs) + 1}"
        created = RunCreated(
            run=id, agent=agent.name, model=agent.model, messages=agent.transcript(task), limits=agent.limits
        )
        made = FakeRun(id, agent, Scope("run", agent.limits, above), [created])
        self.runs[id] = made
        self.give(id)
        return made

    def give(self, run: str) -> None:
        """The run waits for a worker, whoever has it now."""
        self.waiting.append(run)
        self.stir()

    def say(self, run: str, event: Event, *, quietly: bool = False) -> None:
        """Appends what comes from outside, and tells the worker unless that is to be quiet."""
        self.runs[run].events.append(event)
        if not quietly:
            self.news.append(News(run=run, events=(Raw(encode(event)),)))
            self.stir()

    def stir(self) -> None:
        stir, self._stir = self._stir, trio.Event()
        stir.set()

    async def changed(self) -> None:
        """Until the next time that something has happened."""
        await self._stir.wait()

    async def result(self, run: str) -> RunResult:
        await self.runs[run].ended.wait()
        last = fold(self.runs[run].events).last
        assert last is not None
        return result_of(last)

    # What workers ask

    async def poll(self, request: PollRequest) -> PollAnswer:
        self.polls.append(request)
        self.stir()
        with trio.move_on_after(request.seconds):
            while not (self.waiting and request.room) and not self.news and not self.leave:
                await self._stir.wait()
        count = min(request.room, len(self.waiting))
        given, self.waiting = self.waiting[:count], self.waiting[count:]
        take = []
        for run in given:
            self.runs[run].claim = f"c{next(self._claims)}"
            take.append(Holding(run=run, claim=self.runs[run].claim))
        news, self.news = tuple(self.news), []
        leave, self.leave = tuple(self.leave), []
        return PollAnswer(
            lease_seconds=self.lease,
            tools=self.tables.digest,
            take=tuple(take),
            leave=leave,
            news=news,
            heard=request.heard + len(news),
            leave_soon=self.leave_soon,
        )

    def tools(self) -> ToolTables:
        return self.tables

    def seen(self) -> WorkerList:
        return WorkerList(workers=(), waiting=len(self.waiting))

    async def begin(self, run: str, request: ClaimRequest) -> RunMaterial:
        held = self._held(run, request.claim)
        names = AgentMaterial.__struct_fields__
        said = {name: getattr(held.agent, name) for name in names if name != "tools"}
        await trio.lowlevel.checkpoint()
        return RunMaterial(
            agent=AgentMaterial(**said, tools=tuple(tool.name for tool in held.agent.tools)),
            generation=1,
            number=len(held.events),
            records=tuple(Raw(encode(event)) for event in held.events),
            priority=1,
            above=self._above(held),
            price=self.price,
        )

    async def append(self, run: str, request: AppendRequest) -> AppendAnswer:
        held = self._held(run, request.claim)
        await trio.lowlevel.checkpoint()
        if request.batch in held.batches:
            return AppendAnswer(outcome="appended", above=self._above(held))
        if request.after != len(held.events):
            newcomers = tuple(Raw(encode(event)) for event in held.events[request.after :])
            return AppendAnswer(outcome="newcomers", newcomers=newcomers, above=self._above(held))
        events = [decode(bytes(event)) for event in request.events]
        refused = self._reserve(held, events)
        if refused is not None:
            return AppendAnswer(outcome="no_room", exhausted=refused[0], above=self._above(held))
        held.batches = {**held.batches, request.batch: len(held.events)}
        held.events.extend(events)
        if any(isinstance(event, RunEnded) for event in events):
            held.claim = ""
            held.ended.set()
        self.stir()
        return AppendAnswer(outcome="appended", above=self._above(held))

    async def room(self, run: str, request: RoomRequest) -> RoomAnswer:
        held = self._held(run, request.claim)
        parent = held.scope.parent
        with trio.move_on_after(request.seconds):
            while parent is not None and parent.check(request.need) is not None:
                await self._stir.wait()
        await trio.lowlevel.checkpoint()
        return RoomAnswer(above=self._above(self._held(run, request.claim)))

    async def call(self, run: str, request: WorkerCallRequest) -> WorkerCallAnswer:
        self._held(run, request.claim)
        if request.key not in self.calls:
            self.calls[request.key] = trio.Event()
            try:
                reply = await self.model.call(request.request)
            except ModelError as error:
                answer = WorkerCallAnswer(failure=CallFailure(kind=error.kind, message=error.message), sent=True)
            else:
                answer = WorkerCallAnswer(reply=reply, sent=True)
            self.outcomes[request.key] = answer
            self.calls[request.key].set()
        with trio.move_on_after(request.seconds):
            await self.calls[request.key].wait()
        return self.outcomes.get(request.key, WorkerCallAnswer())

    async def leave_call(self, run: str, request: CallLeave) -> WorkerCallAnswer:
        await trio.lowlevel.checkpoint()
        return WorkerCallAnswer(sent=False)

    async def late(self, run: str, request: LateRequest) -> Done:
        await trio.lowlevel.checkpoint()
        self.late_events.append(decode(bytes(request.event)))
        return Done()

    async def left(self, run: str, request: LeftRequest) -> Done:
        held = self._held(run, request.claim)
        await trio.lowlevel.checkpoint()
        held.claim = ""
        held.left = [*held.left, request]
        self.stir()
        return Done()

    async def start_child(self, run: str, request: ChildStart) -> ChildAnswer:
        self._held(run, request.claim)
        await trio.lowlevel.checkpoint()
        return self.children(request)

    async def step_child(self, run: str, request: ChildStep) -> ChildAnswer:
        self._held(run, request.claim)
        await trio.sleep(1)
        return self.children(request)

    # Parts

    def _held(self, run: str, claim: str) -> FakeRun:
        held = self.runs[run]
        if held.claim != claim:
            raise ClaimGone(f"claim {claim} on run {run} does not count")
        return held

    def _reserve(self, held: FakeRun, events: Sequence[Event]) -> tuple[Exhausted | None] | None:
        for event in events:
            if isinstance(event, ModelRequested):
                need = Amounts(rounds=1, tokens=event.reserved_tokens, micro_dollars=event.reserved_micro_dollars)
                got = held.scope.reserve(need)
                if not isinstance(got, Reservation):
                    return (got if isinstance(got, Exhausted) else None,)
                held.held = {event.key: got}
            elif isinstance(event, ToolStarted):
                exhausted = held.scope.spend(Amounts(tool_calls=1))
                if exhausted is not None:
                    return (exhausted,)
            elif isinstance(event, ModelReplied | ModelFailed):
                total = event.reply.usage.total if isinstance(event, ModelReplied) else event.usage.total
                rounds = int(isinstance(event, ModelReplied))
                for reservation in held.held.values():
                    reservation.settle(Amounts(rounds=rounds, tokens=total or 0))
        return None

    def _above(self, held: FakeRun) -> tuple[ScopeView, ...]:
        return views_of(held.scope)


def views_of(own: Scope) -> tuple[ScopeView, ...]:
    """The budgets above a run's own, with what all others have in them."""
    return tuple(
        ScopeView(
            name=scope.name,
            limits=scope.limits,
            used=scope.used - own.used,
            reserved=scope.reserved - own.reserved,
            unknown=scope.unknown - own.unknown,
            elapsed=None if scope.started is None else trio.current_time() - scope.started,
        )
        for scope in own.path()[:-1]
    )
