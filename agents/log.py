"""A run's way to its journal: one append at a time, never torn by a cancellation, and nothing after a lost one."""

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
        with trio.CancelScope(shield=True):
            async with self._lock:
                if self._failure is not None:
                    raise JournalLost(f"the journal was lost before: {self._failure}") from self._failure
                try:
                    with trio.fail_after(self._seconds):
                        await self._journal.append(events)
                except Exception as error:
                    self._failure = error
                    raise JournalLost(f"the journal took no more events: {error or type(error).__name__}") from error

    @property
    def lost(self) -> bool:
        return self._failure is not None
