"""Which sessions a store in memory still has, of those whose runs have ended: the latest few, and what is watched."""

from collections import Counter, OrderedDict
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from orchestrator.store.base import Store


@runtime_checkable
class Forgetful(Protocol):
    """A store that can let go of one session."""

    def forget(self, session: str) -> None:
        """The session was never there."""
        ...


class EndedSessions:
    """Forgets sessions in the order in which their latest runs ended. `busy` are those with an open run."""

    def __init__(self, store: Store, busy: Container[str]) -> None:
        self._store = store
        self._busy = busy
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._watched: Counter[str] = Counter()
        self._doomed: set[str] = set()

    def add(self, session: str) -> None:
        """A run of this session has ended."""
        self._ended[session] = None
        self._ended.move_to_end(session)

    def forget(self, keep: int) -> None:
        """Lets go of all but the latest `keep`."""
        while len(self._ended) > keep:
            session, _ = self._ended.popitem(last=False)
            if session in self._watched:
                self._doomed.add(session)
            else:
                self._let_go(session)

    @contextmanager
    def kept(self, session: str) -> Iterator[None]:
        """While somebody reads it, a session stays."""
        self._watched[session] += 1
        try:
            yield
        finally:
            self._watched[session] -= 1
            if not self._watched[session]:
                del self._watched[session]
                if session in self._doomed:
                    self._doomed.remove(session)
                    self._let_go(session)

    def _let_go(self, session: str) -> None:
        if session not in self._busy and isinstance(self._store, Forgetful):
            self._store.forget(session)
