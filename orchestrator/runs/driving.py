"""One run, driven until it has ended: taken up again as often as its log lets it, or left where it stands.

One that waits for nobody but people is given up as well: its lease is let go of, and its record says what it waits for.

A run that could not go on is tried again after 1 s, 2 s, 4 s and so on, at most every minute; for as long as this
executor is fenced, not at all.
"""

from collections.abc import Callable
from typing import Final

import structlog
import trio

from agents.errors import HeadraceError
from agents.log import JournalLost
from agents.origin import RunLeft, RunParked
from orchestrator.runs.executor import Executor
from orchestrator.runs.reading import read_session
from orchestrator.runs.record import RunRecord
from orchestrator.runs.taking_up import TakingUp
from orchestrator.store.base import Store

FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0

_log = structlog.get_logger("headrace.runs")


class Driving:
    """Drives the runs of one service, at most as many at once as `room` has places.

    `again` says whether a run whose log takes no more events may go on later. Once `leaving` is set, runs are left.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        taking_up: TakingUp,
        room: trio.CapacityLimiter,
        *,
        again: bool,
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._executor = executor
        self._taking_up = taking_up
        self._room = room
        self._again = again
        self._wall = wall
        self.leaving = False

    async def drive(self, record: RunRecord) -> None:
        """Until the run has ended, waits for people, or is left; the record knows which.

        Only cancelling raises, `trio.Cancelled`.
        """
        wait = 0.0
        while not self.leaving and not record.let_go:
            if record.live is None and not await self._taken_up(record, wait):
                return
            run = record.live
            assert run is not None
            if self._may_not_drive():  # since it was being taken up
                run.leave()
            rounds = run.progress.rounds
            try:
                await run.drive(self._room if record.terms.child is None else None)
            except RunParked:
                if await self._waits(record):
                    return
                if not record.problem:
                    wait = 0.0
                    continue
            except RunLeft as left:
                record.park(left.message)
            except JournalLost as lost:
                if not self._again:
                    await self._give_up(record)
                    return
                _log.debug("a run's log takes no more; it stays open", run=record.run, why=lost.message)
                record.park(lost.message)
            else:
                return
            wait = _longer(0.0 if run.progress.rounds > rounds else wait)

    async def _waits(self, record: RunRecord) -> bool:
        """Lets go of a run that waits for people; False where it goes on, since somebody said something meanwhile.

        What is in the log and was heard before it was read is in what was read; all else is heard by a record that says
        that it waits.
        """
        generation = 0 if record.journal is None else record.journal.generation
        record.park("")
        with trio.CancelScope(shield=True):
            try:
                await self._store.release(record.session, generation)
                snapshot, heard = None, -1
                while heard != record.heard:  # an answer may overtake what is being read
                    heard = record.heard
                    snapshot = await read_session(self._store, record.session, snapshot)
                assert snapshot is not None
                record.stands(snapshot)
            except HeadraceError as error:
                record.problem = error.message
        return bool(record.waits)

    def _may_not_drive(self) -> bool:
        return self.leaving or (self._again and not self._executor.alive)

    async def _taken_up(self, record: RunRecord, wait: float) -> bool:
        """False where the run has ended, or is to be left for good."""
        while not self.leaving and not record.let_go:
            with trio.CancelScope() as record.pause:  # cancelled by a fence as well, which passes
                try:
                    return await self._take_up(record, wait)
                finally:
                    record.pause = None
        return False

    async def _take_up(self, record: RunRecord, wait: float) -> bool:
        while True:
            if wait:
                await trio.sleep(wait)
            await self._executor.until_alive()
            try:
                return await self._taking_up.take_up(record)
            except HeadraceError as error:
                problem = error.message
            except Exception as error:
                _log.exception("a run cannot be taken up", run=record.run)
                problem = f"{type(error).__name__}: {error}"
            if problem != record.problem:
                _log.warning("a run cannot be taken up for now; it stays open", run=record.run, why=problem)
            record.problem = problem
            wait = _longer(wait)

    async def _give_up(self, record: RunRecord) -> None:
        ended = record.ended_event(self._wall())
        if ended is None or record.journal is None:
            return
        with trio.CancelScope(shield=True):
            try:
                await record.journal.close_lost(ended)
            except HeadraceError as error:
                _log.warning("the index does not know how a run ended", run=record.run, why=error.message)


def _longer(wait: float) -> float:
    return min(max(2 * wait, FIRST_WAIT), LONGEST_WAIT)
