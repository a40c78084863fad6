"""The writer: what waits is committed together, on one connection.

While a group is on its way to the disk the next one gathers, so the more there is to do, the larger the groups: ten
thousand appends at once cost a few syncs. A group whose connection breaks is done again on a new one, whole, and what
of it was already committed is known by its batch ids. A group in which something fails is halved until what fails
stands alone; so a bad batch costs its group some transactions, and nobody else anything.

The server may be away for `patience` seconds: as long as an executor's lease, for nobody needs an answer after that.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg

from orchestrator.store.desk import Work
from orchestrator.store.errors import NotActive, StoreAway, StoreError, StoreFull
from orchestrator.store.postgres_group import commit
from orchestrator.store.postgres_link import Address, Fault, as_store_error, fault, words
from orchestrator.store.postgres_moves import Move
from orchestrator.store.postgres_schema import Link

GROUP_BYTES: Final = 8 << 20
"""How much of records goes into one transaction, unless a single batch is larger."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_AGAIN: Final = 5


class Step(Work):
    """A move on its way."""

    __slots__ = ("size", "what")

    def __init__(self, what: Move) -> None:
        super().__init__(_no_function, session=what.session)
        self.what = what
        self.size = 0 if what.batch is None else sum(map(len, what.batch.records))


class Writer:
    """What the writing thread runs. While `epoch` is not 0, it writes only while that is the active daemon's."""

    def __init__(self, address: Address, link: Link, *, patience: float) -> None:
        self._address = address
        self._link: Link | None = link
        self._patience = patience
        self._closing = threading.Event()
        self._away_since: float | None = None
        self.pid = link.info.backend_pid
        self.epoch = 0
        self.groups = 0

    def hurry(self) -> None:
        """Waits for no server any more: what cannot be written now fails. From any thread."""
        self._closing.set()

    def cut(self) -> None:
        """Breaks the connection under what hangs on it, for a server that neither answers nor goes. From any thread."""
        link = self._link
        with suppress(OSError, psycopg.Error):
            if link is not None:
                with socket.socket(fileno=os.dup(link.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Lets the connection go."""
        if self._link is not None:
            self._link.close()

    def handle(self, works: list[Work]) -> None:
        """Does all of it, as many at once as can be."""
        for group in _portions(works):
            self._settle(group)

    def _settle(self, group: Sequence[Work]) -> None:
        todo = [group]
        while todo:
            todo += reversed(self._attempt(todo.pop()))

    def _attempt(self, group: Sequence[Work]) -> tuple[Sequence[Work], ...]:
        """Ends all of the group's work, or says what is left of it, in order."""
        error = self._commit_again(group)
        if error is None:
            return ()
        make = _refusal(error)
        if len(group) == 1 or isinstance(error, NotActive | StoreAway) or isinstance(make(), StoreFull):
            for work in group:
                work.error = make()
            return ()
        middle = len(group) // 2
        return group[:middle], group[middle:]

    def _commit_again(self, group: Sequence[Work]) -> Exception | None:
        """Commits the group, however often that takes; why it can't be done, if it can't."""
        again = 0
        while True:
            try:
                self._commit(group)
            except Exception as error:
                match fault(error, self._link):
                    case Fault.GONE if self._wait_for_server():
                        continue
                    case Fault.GONE:
                        return StoreAway(_said(error))
                    case Fault.AGAIN if again < _AGAIN:
                        again += 1
                        continue
                return error
            self._away_since = None
            return None

    def _commit(self, group: Sequence[Work]) -> None:
        link = self._connected()
        steps = [work for work in group if isinstance(work, Step)]
        rest = [work for work in group if not isinstance(work, Step)]
        self.groups += 1
        answers, values = commit(link, self.epoch, [step.what for step in steps], [work.move for work in rest])
        for work, value in zip((*steps, *rest), (*answers, *values), strict=True):
            if isinstance(value, StoreError):
                work.error = value
            else:
                work.value = value

    def _connected(self) -> Link:
        if self._link is None or self._link.closed:
            self._link = None
            self._link = self._address.connect()
            self.pid = self._link.info.backend_pid
        return self._link

    def _wait_for_server(self) -> bool:
        """Pauses before the next try; False where the server was away for too long, or there is no time."""
        if self._link is not None:
            self._link.close()
            self._link = None
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        away = now - self._away_since
        if away >= self._patience:
            return False
        # half of the time that it is away already: soon at first, then ever more rarely
        return not self._closing.wait(min(max(away / 2, _FIRST_PAUSE), _LONGEST_PAUSE))


def _portions(works: Sequence[Work]) -> Iterator[Sequence[Work]]:
    begin = size = 0
    for at, work in enumerate(works):
        more = work.size if isinstance(work, Step) else 0
        if at > begin and size + more > GROUP_BYTES:
            yield works[begin:at]
            begin, size = at, 0
        size += more
    yield works[begin:]


def _refusal(error: Exception) -> Callable[[], Exception]:
    """Makes the error for each caller: one that several tasks raise would collect the traces of all."""
    match error:
        case NotActive():
            return lambda: NotActive(error.holder)
        case StoreAway():
            return lambda: StoreAway(error.why)
        case _:
            return lambda: as_store_error(error)


def _said(error: Exception) -> str:
    return words(error) if isinstance(error, psycopg.Error) else str(error)


def _no_function(_: Any) -> None:
    raise NotImplementedError  # a step is data; the planner does it
