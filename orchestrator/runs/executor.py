"""This process as one that drives runs: it says that it is alive, and stops before anybody may take it for dead.

An executor counts as alive for `LEASE_SECONDS` after each beat, by the store's clock. It counts from the moment before
the beat was sent, by its own, so it is never later than the store; and where no beat came through it leaves all its
runs `FENCE_SECONDS` before that time is over. Then nobody drives what another executor may have taken up already; and
appends of an older generation are refused by the store in any case.
"""

import itertools
import math
import secrets
from collections.abc import Callable
from typing import Final

import structlog
import trio

from orchestrator.store.base import FENCE_SECONDS, LEASE_SECONDS, Batch, SessionView, Store
from orchestrator.store.errors import SessionBusy, StoreError

BEAT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0

_log = structlog.get_logger("headrace.runs")


class Executor:
    """The one executor of a store that this process alone has: whoever else held a session is gone."""

    def __init__(self, store: Store, *, holder: str = "") -> None:
        self.holder = holder or secrets.token_hex(8)
        self._store = store
        self._batches = itertools.count(1)
        self._lock = trio.Lock()
        self._until = -math.inf
        self._alive = trio.Event()
        self._scope = trio.CancelScope()
        self._ended = False
        self.on_fence: Callable[[], None] = lambda: None
        self.on_cancelled: Callable[[], None] = lambda: None

    @property
    def alive(self) -> bool:
        """Whether it may drive runs."""
        return self._alive.is_set()

    def batch_id(self) -> str:
        """An id for one batch, never given out again."""
        return f"{self.holder}-{next(self._batches)}"

    async def announce(self) -> None:
        """Makes it known to the store, where it is not. Raises `StoreError`."""
        if self._until > -math.inf:
            return
        async with self._lock:
            if self._until == -math.inf:
                await self._beat()

    async def until_alive(self) -> None:
        """Waits until it may drive runs."""
        await self._alive.wait()

    async def take(self, session: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        """Takes a session's lease; see `Store.take`."""
        await self.announce()
        try:
            return await self._store.take(session, self.holder, tenant=tenant, batch=batch)
        except SessionBusy:
            holder = (await self._store.session(session)).holder
            if holder == self.holder:
                raise
            await self._store.drop(holder)
        return await self._store.take(session, self.holder, tenant=tenant, batch=batch)

    async def run(self) -> None:
        """Beats until `stop`. In a store that is not durable nobody else looks, and one beat is enough.

        Cancelled, it says so at once (`on_cancelled`): with the tasks of runs that are cancelled beside it, all this
        process does is ending, and that is no reason for their runs to end.
        """
        if self._ended or not self._store.durable:
            return
        try:
            with self._scope:
                await self._beat_on()
        except trio.Cancelled:
            self.on_cancelled()
            raise

    async def _beat_on(self) -> None:
        while True:
            with trio.move_on_at(self._until if self.alive else math.inf):
                await self._beat_soon()
                await trio.sleep(BEAT_SECONDS)
                continue
            self._fence()

    async def stop(self) -> None:
        """Lets go of everything it holds. Its runs must have been left."""
        self._ended = True
        self._scope.cancel()
        self._alive = trio.Event()
        if self._until == -math.inf:
            return
        self._until = -math.inf
        try:
            await self._store.drop(self.holder)
        except StoreError as error:  # its sessions are free when its time is over
            _log.warning("the store could not be told that this daemon lets go of its sessions", why=error.message)

    async def _beat_soon(self) -> None:
        while True:
            try:
                await self._beat()
            except StoreError as error:
                _log.warning("the store took no sign of life", why=error.message)
                await trio.sleep(RETRY_SECONDS)
            else:
                return

    async def _beat(self) -> None:
        sent = trio.current_time()
        if self._store.durable:
            await self._store.beat(self.holder)
            self._until = sent + LEASE_SECONDS - FENCE_SECONDS
        else:
            await self._store.beat(self.holder, math.inf)
            self._until = math.inf
        self._alive.set()

    def _fence(self) -> None:
        _log.error("the store has not answered for too long; all runs are left until it does")
        self._alive = trio.Event()
        self.on_fence()

    def __repr__(self) -> str:
        return f"<Executor {self.holder}{'' if self.alive else ' fenced'}>"
