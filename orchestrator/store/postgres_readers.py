"""A few connections for reading, each used by one thread at a time.

A reader that is cancelled lets go at once; its query is cancelled at the server, and its connection comes back when
that has happened.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

import psycopg
import trio

from orchestrator.store.base import LEASE_SECONDS
from orchestrator.store.errors import StoreAway, StoreClosed, StoreError
from orchestrator.store.postgres_link import Address, Fault, as_store_error, fault, words
from orchestrator.store.postgres_schema import Link

T = TypeVar("T")

READERS: Final = 4
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_CANCEL_AGAIN: Final = 0.1


class Readers:
    """At most `READERS` connections, made when they are needed."""

    def __init__(self, address: Address, *, patience: float = LEASE_SECONDS) -> None:
        self._address = address
        self._patience = patience
        self._limiter = trio.CapacityLimiter(READERS)
        self._idle: deque[Link] = deque()
        self._lock = threading.Lock()
        self._closed = False

    async def query(self, work: Callable[[Link], T]) -> T:
        """Runs `work` on a connection; again where that breaks, for as long as the server may be away."""
        start, pause = trio.current_time(), _FIRST_PAUSE
        while True:
            attempt = _Attempt(self, work)
            try:
                return await attempt.run(self._limiter)
            except Exception as error:
                if not attempt.gone(error):
                    raise as_store_error(error) from None
                if trio.current_time() + pause > start + self._patience:
                    said = words(error) if isinstance(error, psycopg.Error) else str(error)
                    raise StoreAway(said) from None
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def close(self) -> None:
        """Lets all connections go; those in use when they come back."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.popleft().close()

    # On a reader's thread

    def get(self) -> Link:
        """A connection. Raises `psycopg.Error`, `StoreClosed`."""
        with self._lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            if self._idle:
                return self._idle.pop()
        return self._address.connect()

    def put(self, link: Link) -> None:
        """Gives it back."""
        with self._lock:
            if self._closed or link.closed:
                link.close()
            else:
                self._idle.append(link)


class _Attempt(Generic[T]):
    """One try at a query."""

    def __init__(self, readers: Readers, work: Callable[[Link], T]) -> None:
        self._readers = readers
        self._work = work
        self._link: Link | None = None
        self._lock = threading.Lock()
        self._left = False
        self._ended = threading.Event()

    async def run(self, limiter: trio.CapacityLimiter) -> T:
        try:
            return await trio.to_thread.run_sync(self._run, limiter=limiter, abandon_on_cancel=True)
        except trio.Cancelled:
            self._leave()
            raise

    def gone(self, error: Exception) -> bool:
        return fault(error, self._link) is Fault.GONE

    def _run(self) -> T:
        link = self._readers.get()
        with self._lock:
            self._link = link
            left = self._left
        try:
            if left:
                raise StoreError("whoever asked has left")
            return self._work(link)
        finally:
            with self._lock:
                self._ended.set()
                if self._left:  # the cancellation may still be on its way, and must not meet another's query
                    link.close()
            self._readers.put(link)

    def _leave(self) -> None:
        """Tells the server that nobody waits for the query any more, from a thread of its own."""
        with self._lock:
            self._left = True
            if self._link is None or self._ended.is_set():
                return
        threading.Thread(target=self._cancel, name="postgres cancel", daemon=True).start()

    def _cancel(self) -> None:
        assert self._link is not None
        with suppress(psycopg.Error):  # it ends by itself, or with its connection
            while not self._ended.is_set():
                # one that comes before the query itself cancels nothing
                self._link.cancel_safe(timeout=5)
                self._ended.wait(_CANCEL_AGAIN)
