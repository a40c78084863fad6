"""What people and programs say to a run from outside: in its log first, then to whoever drives it.

The log says what came before what. So a cancellation that is acknowledged before a tool is started keeps it from
starting, whoever drives the run, now or after a restart.
"""

import secrets
from collections.abc import Callable
from typing import Final

from agents.budget import Limits
from agents.errors import InvalidLimits
from agents.events import BudgetGranted, CancelRequested, Event, MessageAdded, encode
from agents.loop import Taken
from orchestrator.runs.errors import RunOver
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import Store
from orchestrator.store.errors import UnknownSession

LONGEST_MESSAGE: Final = 1024 * 1024
"""Characters."""


class Outside:
    """Appends for one service what comes from outside. `wall` is in seconds since the epoch."""

    def __init__(self, store: Store, wall: Callable[[], float]) -> None:
        self._store = store
        self._wall = wall

    async def cancel(self, record: RunRecord, reason: Taken) -> None:
        """Takes the run away. The first of all cancellations counts, so no other is written."""
        event = CancelRequested(run=record.run, source="user", reason=reason, at=self._wall())
        try:
            await self._append(record, "cancel", event)
        except UnknownSession:  # its journal keeps no log in the store
            record.cancel(reason)

    async def message(self, record: RunRecord, content: str, key: str) -> None:
        """Says something to the run. Raises `InvalidLimits`, `RunOver`."""
        if not content.strip():
            raise InvalidLimits("content", "must say something")
        if len(content) > LONGEST_MESSAGE:
            raise InvalidLimits("content", f"must have at most {LONGEST_MESSAGE} characters, not {len(content)}")
        await self._say(record, key, MessageAdded(run=record.run, content=content, at=self._wall()))

    async def grant(self, record: RunRecord, limits: Limits, key: str) -> None:
        """Gives the run other limits. Raises `InvalidLimits`, `RunOver`."""
        if limits == Limits():
            raise InvalidLimits("limits", "must grant something: rounds, tool_calls, tokens, micro_dollars or timeout")
        await self._say(record, key, BudgetGranted(run=record.run, limits=limits, at=self._wall()))

    async def _say(self, record: RunRecord, key: str, event: Event) -> None:
        if record.over:
            raise run_over(record.run)
        await self._append(record, f"said:{key or secrets.token_hex(8)}", event)

    async def _append(self, record: RunRecord, key: str, event: Event) -> None:
        await self._store.append_external(record.session, f"{record.run}:{key}", [encode(event)])
        record.hear((event,))


def run_over(run: str) -> RunOver:
    """The error for a run that has ended."""
    return RunOver(f"run {run} has ended; start another one in its session to go on")
