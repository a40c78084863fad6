"""Who drives what: runs that want a worker are given to workers that poll, and each hears what there is to hear.

It is in the loop what `orchestrator.pools.claims` decides without one.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence

import trio
from msgspec import Raw
from msgspec.structs import replace

from agents.errors import Draining
from agents.events import Event, encode
from orchestrator.pools.claims import MOMENT, Claims, Given
from orchestrator.pools.errors import NameTaken, NotYet
from orchestrator.pools.remote_run import RemoteRun
from orchestrator.pools.seat import Seat
from orchestrator.runs.record import RunRecord
from orchestrator.views.queue import PoolView, SilentWorker
from orchestrator.views.workers import LeftRequest, News, PollAnswer, PollRequest, WorkerList

HOLDS = 6
"""So many polls fit into a lease at least, so that answers can get lost before a worker counts as gone."""

MOST_SILENT = 5
"""So many silent workers are named at most."""


class Roster:
    """Implements `orchestrator.pools.crew.Crew`. `tools` is the digest of the tools' tables as they are in force,
    `lease` is in seconds; `hint` says to people how workers come.
    """

    def __init__(self, tools: Callable[[], str], lease: float, hint: str) -> None:
        self._tools = tools
        self._lease = lease
        self._hint = hint
        self._runs: dict[str, RemoteRun] = {}
        self._records: Mapping[str, RunRecord] = {}
        self._made: Claims | None = None
        self._closed = self._ending = False
        self._rung: dict[str, trio.Event] = {}
        self._changed = trio.Event()

    def serve(self, records: Mapping[str, RunRecord]) -> None:
        """From here on it has workers for these open runs."""
        self._records = records
        self._made = Claims(secrets.token_hex(4), self._lease, trio.current_time(), self._may_be_held)

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
        """No worker is told anything any more, and none has a claim here."""
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

    def problem(self) -> str:
        """See `Crew`."""
        return "" if self._claims.seats else f"no worker is connected; {self._hint}"

    # For workers

    async def poll(self, request: PollRequest) -> PollAnswer:
        """A worker's sign of life. Of several polls of one worker at once only the latest is answered with anything.

        Raises `NameTaken`, `Draining`.
        """
        self._refuse_after_close()
        await self._take_name(request)
        now = trio.current_time()
        room = 0 if request.ends or self._ending else request.room
        seat, leave, adopted, dropped = self._claims.hear(
            request.worker, room, request.holding, request.heard, now, request.instance
        )
        self._changed.set()
        self._ring(seat.name)  # an earlier poll of its own is over
        for given in adopted:
            self._give(given)
        for run in dropped:
            self._lost(run)
        self._assign()
        turn, deadline = seat.turn, now + min(request.seconds, self._lease / HOLDS)
        cut = True
        try:
            while True:
                answer = self._answer(seat, request, leave)
                if answer is not None or self._closed or seat.turn != turn or trio.current_time() >= deadline:
                    break
                rung = self._rung.setdefault(seat.name, trio.Event())
                with trio.move_on_at(deadline):
                    await rung.wait()
            cut = False
        finally:
            if seat.turn == turn:
                self._end_poll(seat, request, cut=cut)
        self._refuse_after_close()
        if answer is None or seat.turn != turn:
            answer = PollAnswer(lease_seconds=self._lease, tools=self._tools(), heard=request.heard)
        seat.told_soon = self._ending
        return replace(answer, leave_soon=self._ending)

    async def _take_name(self, request: PollRequest) -> None:
        """The name is this process's, unless another one that has it is at work."""
        await trio.lowlevel.checkpoint()
        rival = self._claims.rival(request.worker, request.instance, trio.current_time())
        if rival is not None and not rival.polling:
            await trio.sleep(MOMENT)  # one that is at work has polled by then
            self._refuse_after_close()
            rival = self._claims.rival(request.worker, request.instance, trio.current_time())
        if rival is not None:
            raise NameTaken(f"a worker called {request.worker!r} is at work already: give this one another --name")
        for run in self._claims.succeed(request.worker, request.instance):
            self._lost(run)

    def _answer(self, seat: Seat, request: PollRequest, leave: list[str]) -> PollAnswer | None:
        """None where there is nothing to say."""
        take = self._claims.new(seat, request.holding)
        news, heard = seat.news()
        if not (take or leave or news or (self._ending and not seat.told_soon)):
            return None
        return PollAnswer(
            lease_seconds=self._lease,
            tools=self._tools(),
            take=take,
            leave=tuple(leave),
            news=news,
            heard=max(heard, request.heard),
        )

    def _end_poll(self, seat: Seat, request: PollRequest, *, cut: bool) -> None:
        self._claims.answered(seat, trio.current_time(), cut=cut)
        self._rung.pop(seat.name, None)
        if request.ends and not request.holding:
            for run in tuple(seat.runs):
                self._claims.free(run)
                self._lost(run)
            self._claims.gone(seat)
        self._changed.set()

    def view(self) -> PoolView:
        """All of it in a few numbers."""
        now, seats = trio.current_time(), self._claims.seats.values()
        quiet = ((max(0.0, now - seat.heard), seat.name) for seat in seats)
        silent = sorted(((for_, name) for for_, name in quiet if for_ > self._lease / 2), reverse=True)
        return PoolView(
            workers=len(seats),
            runs=sum(len(seat.runs) for seat in seats),
            room=sum(seat.room for seat in seats),
            waiting=self._claims.waiting,
            silent=tuple(SilentWorker(worker=name, quiet=for_) for for_, name in silent[:MOST_SILENT]),
            problem=self.problem(),
        )

    def seen(self) -> WorkerList:
        """All workers, and how many runs wait for one."""
        now = trio.current_time()
        seats = sorted(self._claims.seats.values(), key=lambda seat: seat.name)
        return WorkerList(workers=tuple(seat.view(now) for seat in seats), waiting=self._claims.waiting)

    def claimed(self, run: str, claim: str, *, begun: bool = False) -> RemoteRun:
        """The run, where this claim to it counts. `begun`: its worker has begun to drive it.

        Raises `ClaimGone`, `NotYet`, `Draining`.
        """
        self._refuse_after_close()
        self._claims.of(run, claim, trio.current_time())
        held = self._runs.get(run)
        if held is None or held.nursery is None:
            raise NotYet(f"run {run} is not driven here yet")
        if begun:
            self._claims.of(run, claim, trio.current_time()).begun = True
        return held

    def left(self, run: str, request: LeftRequest) -> None:
        """The worker drives the run no longer. Raises as `claimed` does."""
        self._refuse_after_close()
        self._claims.of(run, request.claim, trio.current_time())
        self._claims.free(run)
        held = self._runs.get(run)
        if held is not None:
            held.lost()
            held.left(request)

    # Inside

    @property
    def _claims(self) -> Claims:
        assert self._made is not None, "this pool serves nobody yet"
        return self._made

    def _refuse_after_close(self) -> None:
        if self._closed:
            raise Draining("the daemon is shutting down")

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
        return f"<Roster {len(self._runs)} runs, {self._made and len(self._made.seats)} workers>"
