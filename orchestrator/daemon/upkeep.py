"""What a daemon does beside its work: it looks after dates, and removes what nobody has touched for long."""

import datetime
import time
from collections.abc import Callable
from typing import Final

import structlog
import trio

from orchestrator.runs.sessions import SessionService
from orchestrator.store.errors import StoreError

DAY: Final = 86_400.0

PRICES_SECONDS: Final = 60.0
"""How long after midnight prices may be yesterday's."""

PRUNE_SECONDS: Final = 3_600.0
"""How often it is looked for what is old."""

_log = structlog.get_logger("headrace")


async def on_new_day(tell: Callable[[datetime.date], None]) -> None:
    """Calls `tell` whenever a day has begun."""
    day = datetime.date.today()
    while True:
        await trio.sleep(PRICES_SECONDS)
        if datetime.date.today() != day:
            day = datetime.date.today()
            tell(day)


async def keep_tidy(
    sessions: SessionService, keep_days: Callable[[], float], wall: Callable[[], float] = time.time
) -> None:
    """Removes from time to time what nobody has touched for so many days; 0 keeps everything."""
    while True:
        await trio.sleep(PRUNE_SECONDS)
        days = keep_days()
        if not days:
            continue
        try:
            pruned = await sessions.prune(wall() - days * DAY)
        except StoreError as error:
            _log.warning("what is old could not be removed", reason=error.message)
            continue
        if pruned.sessions or pruned.calls:
            _log.info("removed what is old", sessions=pruned.sessions, runs=pruned.runs, calls=pruned.calls)
