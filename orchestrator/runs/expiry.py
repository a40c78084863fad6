"""When nobody answers in time: each open request that expires is decided by the clock.

One task sleeps until the next one expires, and there is none while nothing can. It goes by the wall clock, which may be
set meanwhile; that an answer came too late is judged by the times in the log, however late this task is.
"""

import heapq
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
import trio

from agents.people_events import Asked
from orchestrator.runs.record import RunRecord
from orchestrator.store.errors import StoreError

AGAIN_SECONDS: Final = 5.0
"""How long after the store did not take it the clock says so again."""

_log = structlog.get_logger("headrace.runs")


class Expiry:
    """The clock of one service's open requests; `expire` puts it into the log that one has expired.

    While it is `held`, nothing expires: what was found at start waits until it is known who drives what.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        records: Mapping[str, RunRecord],
        wall: Callable[[], float],
        expire: Callable[[RunRecord, Asked], Awaitable[object]],
    ) -> None:
        self._nursery = nursery
        self._records = records
        self._wall = wall
        self._expire = expire
        self._heap: list[tuple[float, str, str]] = []
        self._known: set[str] = set()
        self._scope: trio.CancelScope | None = None
        self._sooner = trio.Event()
        self._held = self._stopped = False

    def look(self, record: RunRecord) -> None:
        """Other things are asked about this run than before."""
        for asked in record.requests.open:
            if asked.expires is not None and asked.key not in self._known:
                self._known.add(asked.key)
                heapq.heappush(self._heap, (asked.expires, asked.key, record.run))
                self._sooner.set()
        self._begin()

    def hold(self) -> None:
        """Nothing expires from here on."""
        self._held = True

    def go(self) -> None:
        """Everything expires in its time, and what should have by now does at once."""
        self._held = False
        self._begin()

    def stop(self) -> None:
        """Nothing expires here any more."""
        self._stopped = True
        if self._scope is not None:
            self._scope.cancel()

    def _begin(self) -> None:
        if self._heap and self._scope is None and not self._held and not self._stopped:
            self._scope = trio.CancelScope()
            try:
                self._nursery.start_soon(self._run, self._scope)
            except RuntimeError:  # the service has ended
                self._scope = None

    async def _run(self, scope: trio.CancelScope) -> None:
        with scope:
            try:
                while self._heap:
                    await self._until_due()
                    await self._due()
            finally:
                self._scope = None

    async def _until_due(self) -> None:
        self._sooner = trio.Event()
        self._drop_answered()
        left = self._heap[0][0] - self._wall() if self._heap else -math.inf
        with trio.move_on_after(max(left, 0.0)):
            await self._sooner.wait()

    async def _due(self) -> None:
        """Decides what has expired, the earliest first."""
        while self._heap and self._heap[0][0] <= self._wall():
            expires, key, run = heapq.heappop(self._heap)
            record = self._records.get(run)
            asked = None if record is None else record.requests.get(key)
            if record is None or asked is None:
                self._known.discard(key)
                continue
            try:
                await self._expire(record, asked)
            except StoreError as error:
                _log.warning("the store does not take that a request has expired", request=key, why=error.message)
                heapq.heappush(self._heap, (expires, key, run))
                await trio.sleep(AGAIN_SECONDS)
            else:
                self._known.discard(key)

    def _drop_answered(self) -> None:
        while self._heap:
            _, key, run = self._heap[0]
            record = self._records.get(run)
            if record is not None and record.requests.get(key) is not None:
                return
            heapq.heappop(self._heap)
            self._known.discard(key)

    def __repr__(self) -> str:
        return f"<Expiry of {len(self._heap)} requests{' held' if self._held else ''}>"
