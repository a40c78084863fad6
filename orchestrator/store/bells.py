"""How watchers learn that a session's log has grown, inside one process.

A watcher listens first and reads then. So what is appended after its read has rung, and nothing falls between.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import trio

from orchestrator.store.base import Record

Read = Callable[[str, int], Awaitable[list[Record]]]


class Bells:
    """One bell for each session that somebody watches. For the thread of the event loop."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}

    def ring(self, session: str) -> None:
        """Something happened to the session."""
        for listener in self._listeners.get(session, ()):
            listener.rang.set()

    def ring_all(self) -> None:
        """Wakes every watcher: what they read may be gone."""
        for session in list(self._listeners):
            self.ring(session)

    def listen(self, session: str) -> "Listener":
        """A listener, which hears every ring from now on; it has to be closed."""
        listener = Listener(self, session)
        self._listeners.setdefault(session, set()).add(listener)
        return listener

    def leave(self, listener: "Listener") -> None:
        """The listener hears nothing more."""
        listeners = self._listeners.get(listener.session, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(listener.session, None)

    def __len__(self) -> int:
        return sum(map(len, self._listeners.values()))


class Listener:
    """One watcher's ear. `rang` is set by a ring; whoever is about to read puts a new one in its place first."""

    __slots__ = ("_bells", "rang", "session")

    def __init__(self, bells: Bells, session: str) -> None:
        self._bells = bells
        self.session = session
        self.rang = trio.Event()

    def close(self) -> None:
        """Hears nothing more."""
        self._bells.leave(self)


async def follow(bells: Bells, read: Read, session: str, after: int) -> AsyncGenerator[Record, None]:
    """The records behind a number, then new ones as they come. Raises what `read` raises."""
    listener = bells.listen(session)
    try:
        while True:
            listener.rang = trio.Event()
            records = await read(session, after)
            for record in records:
                after = record.number
                yield record
            if not records:
                await listener.rang.wait()
    finally:
        listener.close()
