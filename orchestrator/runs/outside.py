"""What people and programs say to a run from outside: in its log first, then to whoever drives it.

The log says what came before what. So a cancellation that is acknowledged before a tool is started keeps it from
starting, whoever drives the run, now or after a restart.
"""

import secrets
from typing import Final

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.events import BudgetGranted, CancelRequested, Event, MessageAdded, encode
from agents.loop import Taken
from orchestrator.runs.errors import RunOver
from orchestrator.runs.means import Means
from orchestrator.runs.record import RunRecord
from orchestrator.store.errors import UnknownSession

LONGEST_MESSAGE: Final = 1024 * 1024
"""Characters."""


class Outside:
    """Appends for one service what comes from outside; each answers the run it was given."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._store = means.store
        self._wall = means.wall

    async def cancel(self, record: RunRecord, reason: Taken) -> RunRecord:
        """Takes the run away. The first of all cancellations counts, so no other is written."""
        event = CancelRequested(run=record.run, source="user", reason=reason, at=self._wall())
        try:
            await self._append(record, "cancel", event)
        except UnknownSession:  # its journal keeps no log in the store
            record.cancel(reason)
        return record

    async def message(self, record: RunRecord, content: str, key: str) -> RunRecord:
        """Says something to the run. Raises `InvalidLimits`, `RunOver`."""
        if not content.strip():
            raise InvalidLimits("content", "must say something")
        if len(content) > LONGEST_MESSAGE:
            raise InvalidLimits("content", f"must have at most {LONGEST_MESSAGE} characters, not {len(content)}")
        return await self._say(record, key, MessageAdded(run=record.run, content=content, at=self._wall()))

    async def grant(self, record: RunRecord, limits: Limits, key: str) -> RunRecord:
        """Gives the run other limits. Raises `InvalidLimits`, `RunOver`."""
        if limits == Limits():
            raise InvalidLimits("limits", "must grant something: rounds, tool_calls, tokens, micro_dollars or timeout")
        if limits.micro_dollars is not None and not self._priced(record):
            model = record.head.view.model
            problem = f"run {record.run} cannot be granted money, since its model {model!r} has no price"
            raise InvalidLimits("limits.micro_dollars", problem)
        return await self._say(record, key, BudgetGranted(run=record.run, limits=limits, at=self._wall()))

    def _priced(self, record: RunRecord) -> bool:
        """One that is driven keeps the price it began with."""
        if record.live is not None:
            return record.live.progress.price is not None
        return self._means.catalogue().prices.price(record.head.view.model) is not None

    async def _say(self, record: RunRecord, key: str, event: Event) -> RunRecord:
        if record.over:
            raise run_over(record.run)
        await self._append(record, f"said:{key or secrets.token_hex(8)}", event)
        return record

    async def _append(self, record: RunRecord, key: str, event: Event) -> None:
        await self._store.append_external(record.session, f"{record.run}:{key}", [encode(event)])
        record.hear((event,))


def run_over(run: str) -> RunOver:
    """The error for a run that has ended."""
    return RunOver(f"run {run} has ended; start another one in its session to go on")
