"""A run that a worker process drives: what stands for it here, in the place of an `agents.loop.AgentRun`.

It waits for its place among the live runs, and then for a worker. What that appends is appended here, reserved and
settled in the budgets, and folded, so that everything else here sees the run as if it were driven here. A worker that
is gone is replaced; a run that was taken away, or has run out of time, while no worker has it is brought to its end
here. It is left, like every run, where this process leaves its runs: its worker may go on with it under the next one.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

from agents.budget import Scope
from agents.errors import HeadraceError
from agents.events import BudgetGranted, CancelRequested, Event, encode
from agents.fold import fold, raised, result_of
from agents.lifecycle import TERMINAL, State
from agents.log import JournalLost
from agents.loop import AgentRun, Taken, Taker
from agents.origin import RunLeft, RunParked
from agents.port import Journal, ModelPort
from agents.result import RunResult
from agents.snapshot import SessionSnapshot
from orchestrator.pools.crew import Crew
from orchestrator.pools.material import run_material
from orchestrator.pools.place import Place
from orchestrator.pools.remote_books import RemoteBooks
from orchestrator.pools.remote_calls import RemoteCalls
from orchestrator.pools.remote_children import RemoteChildren
from orchestrator.pools.remote_end import ending_of
from orchestrator.pools.remote_log import RemoteLog
from orchestrator.pools.remote_progress import RemoteProgress, progress_of
from orchestrator.runs.driven import Progress
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.means import Means, TakesStanding
from orchestrator.runs.record import RunRecord
from orchestrator.views.workers import LeftRequest, RunMaterial

_AGAIN_SECONDS: Final = 1.0


class RemoteRun:
    """Implements `orchestrator.runs.driven.Driven`. `own` is the run as it would be driven here: it keeps what that
    knows of it, its budget first, and is not driven. `older` says that it may have had a worker before this process.
    """

    def __init__(
        self,
        crew: Crew,
        means: Means,
        record: RunRecord,
        own: AgentRun,
        journal: SessionJournal,
        log: Journal,
        snapshot: SessionSnapshot | None,
    ) -> None:
        self.record = record
        self.older = snapshot is not None
        self.claimed = False
        self.result: RunResult | None = None
        self._crew = crew
        self._means = means
        self._own = own
        self._journal = journal
        self._log = log
        last = None if snapshot is None else snapshot.last
        told = means.parent(record.flow.tenant)
        self.books = RemoteBooks(
            own.scope,
            own.progress.price,
            None if last is None else last.open_request,
            () if told is None else told.path(),
        )
        self.calls = RemoteCalls(self._model, own.progress.price)
        self.children = RemoteChildren(means.spawner(record))
        self.log = RemoteLog(means.store, record.session, record.run, journal, log, self.books, self._known)
        self.log.on_end = self.calls.forget
        if snapshot is not None:
            self.log.progress = progress_of(snapshot, own.progress)
        self._lent = False  # whether a worker drives, or drove, under the present generation of the lease
        self._task = trio.CancelScope()
        self._place = Place()
        self._nursery: trio.Nursery | None = None
        self._stirred = trio.Event()
        self._cancelled = False
        if last is not None and last.cancel is not None:
            self._take_away()
        self._to_tell: CancelRequested | None = None
        self._left: LeftRequest | None = None
        self._leaving = False
        record.hindrance = self._hindrance

    # What drives runs knows of it

    @property
    def run(self) -> str:
        return self._own.run

    @property
    def state(self) -> State:
        if self.result is not None:
            return self.result.state
        known = self.log.progress
        state = State.QUEUED if known is None else known.state
        return State.CANCELLING if self._cancelled and state is not State.QUEUED else state

    @property
    def scope(self) -> Scope:
        return self._own.scope

    @property
    def progress(self) -> Progress:
        return self.log.progress or self._own.progress

    def cancel(self, reason: Taken = "cancelled", message: str = "", source: Taker = "user") -> None:
        if self._cancelled or self.result is not None:
            return
        self._take_away()
        self._to_tell = CancelRequested(run=self.run, at=self._means.wall(), source=source, reason=reason)
        self._stir()

    def receive(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, CancelRequested):
                self._take_away()
            elif isinstance(event, BudgetGranted):
                self.scope.limits = raised(self.scope.limits, event.limits)
                self.scope.wake()
        self._crew.tell(self.run, events)
        self._stir()

    def leave(self) -> None:
        self._leaving = True
        self._task.cancel()

    def leave_soon(self) -> None:
        if self.claimed:
            self._crew.leave_soon()
        else:
            self.leave()

    async def drive(self, room: trio.CapacityLimiter | None = None) -> RunResult:
        """See `agents.loop.AgentRun.drive`."""
        try:
            return await self._to_end(room)
        except Exception:
            raise
        except BaseException:  # cancelled, perhaps in a group of its own
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()  # by now it is known whether all runs are left
                if not self._leaving:
                    self.cancel("cancelled", "whoever ran it was cancelled", "parent")
                    await self._to_end_quietly()
            raise

    # Driving it

    async def _to_end_quietly(self) -> None:
        with suppress(RunLeft, JournalLost):
            await self._to_end(None)

    async def _to_end(self, room: trio.CapacityLimiter | None) -> RunResult:
        self._task = trio.CancelScope()
        if self._leaving:
            self._task.cancel()
        failure: HeadraceError | None = None
        with self._task:
            async with self._place.taken(room, self.progress.expiry):
                failure = await self._driven()
        if self.result is not None:
            return self.result
        raise failure or RunLeft(f"run {self.run} was left open")

    async def _driven(self) -> HeadraceError | None:
        """Until it has ended; why it has not, if so."""
        failure: HeadraceError | None = None
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._left = None
            self._crew.offer(self)
            try:
                failure = await self._until_over()
            finally:
                self._nursery = None
                self.claimed = False
                self._crew.withdraw(self)
                self.calls.cut_off()
                nursery.cancel_scope.cancel()
                if self.result is None:
                    with trio.CancelScope(shield=True):
                        await self.children.leave_all()
        return failure

    async def _until_over(self) -> HeadraceError | None:
        while True:
            await trio.lowlevel.checkpoint()
            self._stirred = trio.Event()
            if self.result is not None:
                return None
            try:
                await self._tell_cancel()
                if not self.claimed and (self._cancelled or trio.current_time() >= self._deadline()):
                    return await self._end_here()
            except HeadraceError as error:
                if self._to_tell is None:
                    return JournalLost(error.message)
                await trio.sleep(_AGAIN_SECONDS)
                continue
            if self._left is not None:
                left, self._left = self._left, None
                return RunParked(left.message) if left.parked else RunLeft(left.message)
            with trio.move_on_at(math.inf if self.claimed else self._deadline()):
                await self._stirred.wait()

    def _deadline(self) -> float:
        return min(self.progress.expiry, self.scope.deadline())

    async def _tell_cancel(self) -> None:
        event = self._to_tell
        if event is not None:
            await self._means.store.append_external(self.record.session, f"{self.run}:cancel", [encode(event)])
            self._to_tell = None
            self.record.hear((event,))

    async def _end_here(self) -> HeadraceError | None:
        """Nobody drives it, and there is nothing left to do but to end it."""
        self._crew.take_back(self.run)
        if self._lent:
            await self._take_lease()
        ending = await ending_of(
            self._own,
            self.log,
            look=self.look,
            model=self._model(),
            generation=self._journal.generation,
            wall=self._means.clock(),
            priority=self.record.priority,
        )
        try:
            await ending.drive()
        except (RunLeft, JournalLost) as error:
            return error
        return None

    # What its worker asks for

    def given(self, *, begun: bool) -> None:
        """A worker has a claim to it."""
        self.claimed = True
        self._lent = self._lent or begun
        if begun and self.log.progress is not None and isinstance(self._log, TakesStanding):
            self._log.stands(self.log.progress.freeze())  # nothing in its log says that it goes on
        self._stir()

    def lost(self) -> None:
        """The claim to it counts no longer."""
        self.claimed = False
        self.calls.cut_off()
        self._stir()

    async def begin(self) -> RunMaterial:
        """What its worker needs. A worker under a new claim has a generation of its own. Raises `StoreError`."""
        if self._lent:
            await self._take_lease()
        self._lent = True
        records = await self.log.whole()
        return run_material(
            self._own.progress.agent,
            records,
            generation=self._journal.generation,
            priority=self.record.priority,
            scope=self.scope,
            price=self.progress.price,
        )

    def left(self, request: LeftRequest) -> None:
        """Its worker drives it no longer."""
        self._left = request
        self._stir()

    @property
    def nursery(self) -> trio.Nursery | None:
        """Where its calls are made; None while it is not driven."""
        return self._nursery

    def look(self) -> None:
        """Something was appended: it may have ended."""
        known = self.log.progress
        if known is None or self.result is not None:
            return
        if known.state in TERMINAL:
            self.books.close()
            self.result = result_of(known.freeze())
            self._crew.over(self.run)
            self._stir()

    async def _take_lease(self) -> None:
        self._journal.generation = (await self._means.executor.take(self.record.session)).generation

    def _model(self) -> ModelPort:
        assert self.record.terms.model is not None
        return self.record.terms.model

    def _known(self, events: Sequence[Event]) -> RemoteProgress:
        return progress_of(fold(events), self._own.progress)

    def _hindrance(self) -> str:
        wants = self._nursery is not None and not self.claimed and self.result is None
        return self._crew.problem() if wants else ""

    def _take_away(self) -> None:
        self._cancelled = True
        self._place.give_up()

    def _stir(self) -> None:
        self._stirred.set()

    def __repr__(self) -> str:
        return f"<RemoteRun {self.run} {self.state}{' claimed' if self.claimed else ''}>"
