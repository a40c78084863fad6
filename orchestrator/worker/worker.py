"""A worker process: it asks the daemon for runs, and drives as many at once as it has room for, in this one loop.

Each poll says that it is alive and which runs it drives. Where none was answered for nearly as long as the daemon
waits before it gives a worker's runs to others, it leaves all of them by itself: then nobody drives what somebody else
may have by now.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import trio

from agents.events import decode
from agents.tools import BaseTool
from orchestrator.client.errors import ClientError
from orchestrator.client.wire import Wire
from orchestrator.views.workers import LONGEST_HOLD, Holding, PollAnswer, PollRequest
from orchestrator.worker.config import WorkerConfig, new_name
from orchestrator.worker.hold import Hold
from orchestrator.worker.link import Link, PatienceOver
from orchestrator.worker.materials import Materials
from orchestrator.worker.work import work_at

FENCE_SECONDS: Final = 5.0
"""So long before its time is over a worker that hears nothing leaves its runs; less where its time is short."""

BYE_SECONDS: Final = 2.0
"""How long the daemon has to hear that a worker has ended, or what it left in a hurry."""

_POKED: Final = 0.02
_LEAST: Final = 0.2
"""Seconds between two polls at least, where the one before brought nothing."""


def fence_of(lease: float) -> float:
    """How long after a poll was sent a worker may go on without another answer, in seconds."""
    return lease - min(FENCE_SECONDS, lease / 3)


class Worker:
    """One worker. Call `run` once; `end` and `hurry` may be called while it runs.

    `wires` are the ways to the daemon, where they are not made of the configuration; `own` are tools that go before
    those of the daemon's configuration; `wall` tells seconds since the epoch. Raises `InvalidLimits` for a bad key.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        wires: Sequence[Wire] = (),
        own: Iterable[BaseTool] = (),
        wall: Callable[[], float] = time.time,
    ) -> None:
        key = config.key()
        self.name = config.name or new_name()
        self._instance = secrets.token_hex(8)
        self._config = config
        self._tell = config.tell
        self._link = Link(
            wires or [Wire(url, key=key, keep=config.runs) for url in config.daemons], config.patience, config.tell
        )
        self._link.on_lost = self._poke
        self._own = tuple(own)
        self._wall = wall
        self._live: set[Hold] = set()
        self._heard = 0
        self._held_for = self._sent = 0.0
        self._until = math.inf
        self._asked_room = 0
        self._polling: trio.CancelScope | None = None
        self._met = trio.Event()
        self._one_less = trio.Event()
        self._ending = self._hurried = False
        self._over: BaseException | None = None

    @property
    def url(self) -> str:
        """Where its daemon was last looked for."""
        return self._link.url

    @property
    def runs(self) -> int:
        """How many runs it drives."""
        return len(self._live)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Works until it was told to end and has left all its runs. Has started when the daemon has answered once.

        Raises `PatienceOver`, and `ClientError` where the daemon refuses it.
        """
        try:
            async with trio.open_nursery() as nursery:
                materials = Materials(nursery, self._link, own=self._own)
                nursery.start_soon(self._until_cancelled)
                nursery.start_soon(self._started, task_status)
                await self._work(nursery, materials)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, relative_deadline=BYE_SECONDS):
                await self._link.aclose()
        if self._over is not None:
            raise self._over

    def end(self) -> None:
        """Takes nothing new, leaves each run when it has no call under way, then ends. Repeating it changes nothing."""
        self._ending = True
        for hold in self._live:
            hold.leave_soon()
        self._poke()

    def hurry(self) -> None:
        """Leaves all runs now."""
        self._hurried = True
        for hold in self._live:
            hold.leave()
        self.end()

    async def _until_cancelled(self) -> None:
        """Its runs are cancelled beside it, and that is no reason for them to end: says so before they act on it."""
        try:
            await trio.sleep_forever()
        finally:
            self._lose_all()

    async def _started(self, task_status: trio.TaskStatus[None]) -> None:
        await self._met.wait()
        task_status.started()

    async def _work(self, nursery: trio.Nursery, materials: Materials) -> None:
        try:
            while not self._ending or (self._live and not self._hurried):
                await self._poll(nursery, materials)
        except (PatienceOver, ClientError) as error:
            self._over = error
            self._lose_all()
        else:
            self._met.set()  # told to end before that, it has begun as far as it ever does
            await self._say_bye()
        await self._left()

    async def _poll(self, nursery: trio.Nursery, materials: Materials) -> None:
        answer: PollAnswer | None = None
        with trio.CancelScope(deadline=self._until) as self._polling:
            answer = await self._link.poll(self._request)
        self._polling = None
        if answer is not None:
            self._act_on(answer, nursery, materials)
            if not (answer.take or answer.leave or answer.news) and self._met.is_set():
                await trio.sleep_until(self._sent + _LEAST)
            self._met.set()
        elif trio.current_time() >= self._until:
            self._fence()
        else:
            await trio.sleep(_POKED)

    def _request(self) -> PollRequest:
        self._sent = trio.current_time()
        self._asked_room = 0 if self._ending else max(0, self._config.runs - len(self._live))
        return PollRequest(
            worker=self.name,
            instance=self._instance,
            room=self._asked_room,
            holding=tuple(hold.holding for hold in self._live if not hold.gone),
            heard=self._heard,
            seconds=self._held_for if self._link.there else 0.0,
            ends=self._ending,
        )

    def _act_on(self, answer: PollAnswer, nursery: trio.Nursery, materials: Materials) -> None:
        self._until = self._sent + fence_of(answer.lease_seconds)
        self._held_for = min(LONGEST_HOLD, answer.lease_seconds / 6)
        self._heard = answer.heard
        materials.digest = answer.tools
        for hold in self._live:
            if hold.run in answer.leave:
                hold.lose()
        for news in answer.news:
            events = tuple(decode(bytes(event)) for event in news.events)
            for hold in self._live:
                if hold.run == news.run and not hold.gone:
                    hold.receive(events)
        known = {hold.claim for hold in self._live}
        for holding in answer.take:
            if holding.claim not in known:
                nursery.start_soon(self._drive, self._take(holding), materials)
        if answer.leave_soon:
            for hold in self._live:
                hold.leave_soon()

    def _take(self, holding: Holding) -> Hold:
        for hold in self._live:
            if hold.run == holding.run:
                hold.lose()  # the newer claim is the one that counts
        taken = Hold(self._link, holding)
        self._live.add(taken)
        if self._ending:
            taken.leave_soon()
        return taken

    async def _drive(self, hold: Hold, materials: Materials) -> None:
        try:
            await work_at(hold, self._link, materials, self._wall)
        finally:
            self._live.discard(hold)
            self._one_less.set()
            if self._ending or not self._asked_room:
                self._poke()

    async def _left(self) -> None:
        """Until it drives nothing any more."""
        while self._live:
            self._one_less = trio.Event()
            await self._one_less.wait()

    def _poke(self) -> None:
        """What the poll under way says is not so any more."""
        if self._polling is not None:
            self._polling.cancel()

    def _fence(self) -> None:
        self._until = math.inf
        if self._live:
            self._tell(f"no daemon has answered for too long; {_runs(len(self._live))} left for others")
        self._lose_all()

    def _lose_all(self) -> None:
        for hold in self._live:
            hold.lose()

    async def _say_bye(self) -> None:
        """Tells the daemon that it need not wait for this worker any more."""
        with trio.move_on_after(BYE_SECONDS):
            await self._left()
            bye = PollRequest(
                worker=self.name, instance=self._instance, room=0, heard=self._heard, seconds=0.0, ends=True
            )
            with suppress(PatienceOver, ClientError):
                await self._link.poll(lambda: bye)
        self._lose_all()


def _runs(count: int) -> str:
    return "1 run is" if count == 1 else f"{count} runs are"
