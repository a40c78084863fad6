"""The tasks that drive runs: how many there may be, what is kept in order when one is over, and how they all end.

A run that waits for people has no task, no place and no model here, until it is woken.
"""

from collections.abc import Callable, Collection

import trio

from agents.errors import Draining
from orchestrator.policy.run_room import RunRoom
from orchestrator.runs.config import RunsConfig
from orchestrator.runs.driving import Driving
from orchestrator.runs.ended_sessions import EndedSessions
from orchestrator.runs.means import Means
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.page import RunStatistics, count_states
from orchestrator.runs.record import RunRecord
from orchestrator.runs.taking_up import TakingUp

SHUTTING_DOWN = "the daemon is shutting down"


class LiveRuns:
    """Drives the runs of one service in `nursery`. `room` counts those that take their tenant's places.

    `closed` says that nothing new is taken; `left` counts runs that this process drove and left open.
    """

    def __init__(
        self, nursery: trio.Nursery, means: Means, books: OpenRuns, taking_up: TakingUp, config: RunsConfig
    ) -> None:
        self.closed = False
        self.left = 0
        self.room = RunRoom(config.per_tenant, config.in_all)
        self.ended = EndedSessions(means.store, books.busy)
        self._nursery = nursery
        self._means = means
        self._books = books
        self._keep_ended = config.keep_ended
        self._limiter = trio.CapacityLimiter(config.max_live)
        self._driving = Driving(
            means.store, means.executor, taking_up, self._limiter, again=means.store.durable, wall=means.wall
        )
        self._beating = False
        self._last_words: str | None = None
        self.on_over: Callable[[RunRecord], None] = lambda record: None
        means.executor.on_fence = self._leave_all
        means.executor.on_cancelled = self._leave_for_good

    def statistics(self) -> RunStatistics:
        """The open runs at this moment."""
        return RunStatistics(
            states=count_states(self._books.records.values()),
            live=self._books.live,
            driven=self._limiter.borrowed_tokens,
            draining=self.closed,
        )

    def refuse_after_close(self) -> None:
        """Raises `Draining`."""
        if self.closed:
            raise Draining(f"{SHUTTING_DOWN} and starts nothing new")

    def beat(self) -> None:
        """From here on the store hears that this process is alive."""
        if not self._beating and self._means.store.durable:
            self._beating = True
            self._nursery.start_soon(self._means.executor.run)

    async def begin(self, record: RunRecord) -> None:
        """Drives a run that was just created, in a task of its own."""
        try:
            self._nursery.start_soon(self.drive, record)
        except RuntimeError:  # the nursery has ended: the run must still get its closing event
            record.cancel("cancelled", SHUTTING_DOWN, "parent")
            await self.drive(record)
            raise

    def resume(self, jobs: Collection[str]) -> int:
        """Drives what nobody drives, each in a task of its own, but for what waits for people, and for runs of these
        jobs; how many that were.
        """
        found = [record for record in self._books.records.values() if not record.driven]
        for record in found:
            record.expected = record.flow.job in jobs or bool(record.parent)
        rest = [record for record in found if not record.expected and not record.waits]
        for record in rest:
            self.alone(record)
        return len(rest)

    def wake(self, record: RunRecord) -> None:
        """Something was said to a run: if it waited for that, it goes on."""
        if record.waits and not record.driven and not self.closed:
            self._rouse(record)

    def _rouse(self, record: RunRecord) -> None:
        record.waits = ()
        if record.owner is not None:
            self._books.driven(record)
            record.owner.set()
        elif not record.expected:
            self.alone(record)

    def alone(self, record: RunRecord) -> None:
        """Drives an open run that nobody drives, though its tenant may have no place left."""
        self._books.driven(record)
        record.counted = True
        self.room.admit(record.flow.tenant, trio.current_time())
        self._nursery.start_soon(self.drive, record)

    async def to_end(self, record: RunRecord) -> None:
        """Drives a run in this task until it has ended or is left, and waits here while it waits for people.

        Cancelled while it waits, it takes the run away, as it does while it drives it.
        """
        while not record.over and not record.let_go:
            if record.waits:
                await self._until_woken(record)
                continue
            if not record.driven:
                self._books.driven(record)
            handed_over = False
            try:
                await self._drive(record)
            except trio.Cancelled:
                handed_over = record.live is None and await self._taken_away(record)
                raise
            finally:
                if not handed_over:
                    self._settle(record)

    async def _until_woken(self, record: RunRecord) -> None:
        record.owner = trio.Event()
        try:
            await record.owner.wait()
        except trio.Cancelled:
            if not await self._taken_away(record) and record.driven:  # it was woken as well
                self._books.parked(record)
            raise
        finally:
            record.owner = None

    async def _taken_away(self, record: RunRecord) -> bool:
        """Whoever wanted a run's result is cancelled while nothing drives it: it ends in a task of its own. False where
        it has ended, or everything here is cancelled and it stays open.
        """
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()  # by now it is known which of these it is
        if self._driving.leaving or record.over or record.let_go:
            return False
        self._give_back(record)
        if record.driven:
            self._books.parked(record)
        record.waits, record.owner = (), None
        record.cancel("cancelled", "whoever ran it was cancelled", "parent")
        self.alone(record)
        return True

    async def drive(self, record: RunRecord) -> None:
        """Drives a run in this task, until it has ended, waits for people, or is left."""
        try:
            await self._drive(record)
        finally:
            self._settle(record)

    async def _drive(self, record: RunRecord) -> None:
        if self._last_words is not None and not self._means.store.durable:
            record.cancel("cancelled", self._last_words, "parent")
        await self._driving.drive(record)

    def _settle(self, record: RunRecord) -> None:
        """Nobody drives it any more."""
        if record.waits or record.let_go:
            self._give_back(record)
            self._books.parked(record)
        else:
            record.end(self._means.wall())
            self.left += record.detail is None
            self._over(record)

    def configure(self, config: RunsConfig) -> None:
        """Puts other bounds in force."""
        self._limiter.total_tokens = config.max_live
        self.room.per_tenant, self.room.in_all = config.per_tenant, config.in_all
        self._keep_ended = config.keep_ended
        self.ended.forget(config.keep_ended)

    async def end_all(self, message: str) -> None:
        """Leaves what can be left open, and takes the rest away with this message; returns when none is driven."""
        self.closed = True
        self._last_words = message
        if self._means.store.durable:
            self._leave_for_good()
        else:
            for record in list(self._books.records.values()):
                record.cancel("cancelled", message, "parent")
                if record.waits:
                    self._rouse(record)
        await self._books.none_live()
        for record in list(self._books.records.values()):  # nobody drives these, and nobody here will
            record.end(self._means.wall())
        await self._means.executor.stop()

    def leave_soon(self) -> None:
        """Begins no new model call and no new tool, and leaves each run open as soon as it has none under way."""
        self.closed = True
        self._driving.leaving = True
        for record in list(self._books.records.values()):
            record.leave_soon()

    def _give_back(self, record: RunRecord) -> None:
        if record.terms.model is not None:
            self._means.models.ended(record.flow)
            record.terms.model = None
        if record.counted:
            record.counted = False
            self.room.leave(record.flow.tenant, trio.current_time())

    def _over(self, record: RunRecord) -> None:
        self._give_back(record)
        if not self._means.store.durable:
            self.ended.add(record.session)
        self._books.over(record)
        self.on_over(record)
        self.ended.forget(self._keep_ended)

    def _leave_for_good(self) -> None:
        self._driving.leaving = True
        self._leave_all()

    def _leave_all(self) -> None:
        for record in list(self._books.records.values()):
            record.leave()
