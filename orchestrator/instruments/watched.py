"""A journal whose events are shown to those who make metrics, log lines and the like of them."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from agents.errors import HeadraceError
from agents.events import Event
from agents.port import Journal, Newcomers, TakesLate
from agents.snapshot import RunSnapshot


class RunWatcher(Protocol):
    """What looks at runs: fast, synchronous, and it never raises."""

    def see(self, event: Event) -> None:
        """An event was appended."""
        ...

    def stands(self, run: RunSnapshot) -> None:
        """This run goes on from here, whatever was known of it."""
        ...

    def left(self, run: str) -> None:
        """Nobody drives this run for now; it is open again when somebody resumes it."""
        ...

    def lost(self, run: str) -> None:
        """An event of this run could not be kept: it ends without a closing one (`agents.log`)."""
        ...


class WatchedJournal:
    """Implements `agents.port.Journal` over another one. `appended` is told how many seconds each append took."""

    __slots__ = ("_appended", "_clock", "_journal", "_watchers")

    def __init__(
        self,
        journal: Journal,
        watchers: Sequence[RunWatcher],
        *,
        appended: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._journal = journal
        self._watchers = watchers
        self._appended = appended
        self._clock = clock

    async def append(self, events: Sequence[Event]) -> None:
        """See `agents.port.Journal`."""
        started = self._clock()
        try:
            await self._journal.append(events)
        except Newcomers:
            raise
        except BaseException as error:
            # what a store says is no end: the run stays open there, and is taken up again
            passing = isinstance(error, HeadraceError | trio.Cancelled)
            for watcher in self._watchers:
                for event in events:
                    (watcher.left if passing else watcher.lost)(event.run)
            raise
        if self._appended is not None:
            self._appended(self._clock() - started)
        for watcher in self._watchers:
            for event in events:
                watcher.see(event)

    def stands(self, run: RunSnapshot) -> None:
        """The run goes on from here."""
        for watcher in self._watchers:
            watcher.stands(run)

    async def late(self, event: Event) -> None:
        """Evidence changes no number."""
        if isinstance(self._journal, TakesLate):
            await self._journal.late(event)
