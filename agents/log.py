"""A run's way to its journal: one append at a time, never torn by a cancellation, and nothing after a lost one."""

from typing import NoReturn

import trio

from agents.errors import HeadraceError
from agents.events import Event
from agents.port import Journal

APPEND_SECONDS = 10.0
"""How long one append may take before the journal counts as lost."""


class JournalLost(HeadraceError):
    """An event could not be made durable. The run's drive ends here: nothing may follow a lost event."""


class Log:
    """Appends for one run.

    An append is shielded, since after a torn one nobody could say whether the effect it announces may happen; it is
    bounded in time instead. After the first failure every further append fails, so that the closing event can't
    follow a hole.
    """

    __slots__ = ("_failure", "_journal", "_lock", "_seconds")

    def __init__(self, journal: Journal, seconds: float = APPEND_SECONDS) -> None:
        self._journal = journal
        self._seconds = seconds
        self._lock = trio.Lock()
        self._failure: Exception | None = None

    async def append(self, *events: Event) -> None:
        """Appends all or raises `JournalLost`. Cancellation is delivered at the caller's next checkpoint."""
        if not events:
            return
        with trio.CancelScope(shield=True) as bound:
            try:
                self._lock.acquire_nowait()
            except trio.WouldBlock:
                await self._lock.acquire()
            try:
                await self._append(events, bound)
            finally:
                self._lock.release()
        if bound.cancelled_caught:
            self._fail(TimeoutError(f"an append took longer than {self._seconds:g} s"))

    async def _append(self, events: tuple[Event, ...], bound: trio.CancelScope) -> None:
        if self._failure is not None:
            raise JournalLost(f"the journal was lost before: {self._failure}") from self._failure
        bound.deadline = trio.current_time() + self._seconds
        try:
            await self._journal.append(events)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        self._failure = error
        raise JournalLost(f"the journal took no more events: {error or type(error).__name__}") from error
