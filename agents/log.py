"""A run's way to its journal: one append at a time, never torn by a cancellation, and nothing after a lost one."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import trio

from agents.budget import Exhausted
from agents.errors import HeadraceError
from agents.events import Event
from agents.port import Journal, Newcomers, NoRoom, TakesLate

APPEND_SECONDS = 10.0
"""How long one append may take before the journal counts as lost."""


class JournalLost(HeadraceError):
    """An event could not be made durable. The run's drive ends here: nothing may follow a lost event."""


class Log:
    """Appends for one run.

    An append is shielded, since after a torn one nobody could say whether the effect it announces may happen; it is
    bounded in time instead. After the first failure every further append fails, so that the closing event can't
    follow a hole.

    `number` is that of the last event known; `receive` gets what others appended before the run did. `refusals` counts
    how often in a row nothing was appended since a budget had no room, and `refused` is the limit that was spent then,
    None where others only hold what is left.
    """

    __slots__ = ("_failure", "_journal", "_lock", "_seconds", "number", "receive", "refusals", "refused")

    def __init__(self, journal: Journal, seconds: float = APPEND_SECONDS, number: int = 0) -> None:
        self._journal = journal
        self._seconds = seconds
        self._lock = trio.Lock()
        self._failure: Exception | None = None
        self.number = number
        self.refused: Exhausted | None = None
        self.refusals = 0
        self.receive: Callable[[Sequence[Any]], None] = _ignore

    @property
    def lost(self) -> bool:
        """Whether it takes nothing any more."""
        return self._failure is not None

    async def append(self, *events: Event, unless: Callable[[], bool] | None = None) -> bool:
        """Appends all or raises `JournalLost`. Cancellation is delivered at the caller's next checkpoint.

        Events that are a decision are appended only as long as they are the right one: answers False, with nothing
        appended, where `unless` holds once all that came before them is known, and where a budget has no room.
        """
        if not events:
            return True
        appended = False
        with trio.CancelScope(shield=True) as bound:
            try:
                self._lock.acquire_nowait()
            except trio.WouldBlock:
                await self._lock.acquire()
            try:
                appended = await self._append(events, unless, bound)
            finally:
                self._lock.release()
        if bound.cancelled_caught:
            self._fail(TimeoutError(f"an append took longer than {self._seconds:g} s"))
        return appended

    async def _append(
        self, events: tuple[Event, ...], unless: Callable[[], bool] | None, bound: trio.CancelScope
    ) -> bool:
        if self._failure is not None:
            raise JournalLost(f"the journal was lost before: {self._failure}") from self._failure
        bound.deadline = trio.current_time() + self._seconds
        while unless is None or not unless():
            try:
                await self._journal.append(events)
            except Newcomers as newcomers:
                self.number += len(newcomers.events)
                self.receive(newcomers.events)
            except NoRoom as no_room:
                self.refused, self.refusals = no_room.exhausted, self.refusals + 1
                return False
            except Exception as error:
                self._fail(error)
            else:
                self.number += len(events)
                self.refused, self.refusals = None, 0
                return True
        return False

    async def late(self, event: Event) -> bool:
        """Tells the journal what came of an abandoned call, whether the run has ended or not; whether it was kept.

        It waits for no other append, holds none up, and its failure is no failure of the run.
        """
        if not isinstance(self._journal, TakesLate):
            return False
        with trio.move_on_after(self._seconds):
            try:
                await self._journal.late(event)
            except Exception:
                return False
            return True
        return False

    def _fail(self, error: Exception) -> NoReturn:
        self._failure = error
        raise JournalLost(f"the journal took no more events: {error or type(error).__name__}") from error


def _ignore(events: Sequence[Any]) -> None:
    pass
