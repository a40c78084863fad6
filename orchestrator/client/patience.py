"""Waiting for a daemon: one that is full says when to come back, one that went away is looked for."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from orchestrator.client.errors import ClientError, NoDaemon, Refusal

T = TypeVar("T")
Tell = Callable[[str], None]

GONE_SECONDS: Final = 120.0
"""How long a daemon may be gone, which is longer than a restart with a drain takes."""

FULL_SECONDS: Final = 600.0
"""How long to wait in all for room in a queue that is full."""

STEADY_SECONDS: Final = 10.0
"""A daemon that goes away again sooner than this was not really back: it is one outage, told once."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 3.0
_LEAST_WAIT: Final = 0.1


class Outage:
    """What a person is told of a daemon that is gone: once that it is, once that it is back, whoever notices."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._gone = False
        self._told = False
        self._back_at: float | None = None

    def gone(self, message: str) -> None:
        """Somebody has lost it."""
        if self._gone:
            return
        self._gone = True
        self._told = self._back_at is None or trio.current_time() - self._back_at > STEADY_SECONDS
        if self._told:
            self._tell(message)

    def back(self) -> None:
        """Somebody has reached it."""
        if not self._gone:
            return
        self._gone = False
        self._back_at = trio.current_time()
        if self._told:
            self._tell("the daemon is back")


class Comeback:
    """One task's patience with a daemon that went away. `seconds` bounds how long one outage may last.

    A daemon that has not been `met` yet is not looked for.
    """

    def __init__(self, seconds: float, outage: Outage, met: Callable[[], bool] = lambda: True) -> None:
        self._seconds = seconds
        self._outage = outage
        self._met = met
        self._since: float | None = None
        self._back_at: float | None = None
        self._pause = _FIRST_PAUSE

    async def lost(self, error: ClientError) -> None:
        """Waits a little before the next try. Raises the error where it has been gone for too long."""
        now = trio.current_time()
        if self._since is None or (self._back_at is not None and now - self._back_at > STEADY_SECONDS):
            if self._seconds <= 0 or not self._met():
                raise error
            self._since, self._pause = now, _FIRST_PAUSE
        self._back_at = None
        pause = self._pause
        if isinstance(error, Refusal) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        if now + pause > self._since + self._seconds:
            raise error
        self._outage.gone(f"{error.message}; trying again for {self._seconds:g} s")
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        await trio.sleep(pause)

    def back(self) -> None:
        """The daemon has answered."""
        self._outage.back()
        if self._since is not None and self._back_at is None:
            self._back_at = trio.current_time()


async def patiently(ask: Callable[[], Awaitable[T]], tell: Tell, seconds: float = FULL_SECONDS) -> T:
    """Asks again where the daemon is full, or is starting or ending, and says when to come back.

    Each wait is told. Raises the refusal where no time is named, or a time beyond `seconds` from the first try.
    """
    give_up = trio.current_time() + seconds
    refused = False
    while True:
        try:
            return await ask()
        except Refusal as refusal:
            wait = refusal.retry_after
            if not refusal.passing or wait is None or trio.current_time() + wait > give_up:
                raise
            wait = max(wait, _LEAST_WAIT)
            tell(f"{refusal.message}; trying again in {max(1, round(wait))} s")
        except NoDaemon:
            wait = _LONGEST_PAUSE
            if not refused or trio.current_time() + wait > give_up:
                raise  # only one that was there a moment ago is being started again
        refused = True
        await trio.sleep(wait)
