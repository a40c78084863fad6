"""What can go wrong with a store. Whatever is raised, nothing that was acknowledged is lost."""

from typing import ClassVar

from agents.errors import HeadraceError


class StoreError(HeadraceError):
    """The store cannot do it; the message says what and why."""

    kind: ClassVar[str] = "store_error"


class Conflict(StoreError):
    """The session's last event is number `last` and not the one that the batch goes behind. Nothing was appended."""

    kind: ClassVar[str] = "conflict"

    def __init__(self, session: str, after: int, last: int) -> None:
        super().__init__(f"session {session} has gone on to event {last}; the batch goes behind {after}")
        self.last = last


class Fenced(StoreError):
    """A later executor has taken the session over: this one may append nothing any more."""

    kind: ClassVar[str] = "fenced"

    def __init__(self, session: str, generation: int, now: int) -> None:
        super().__init__(f"session {session} was taken over: its lease is of generation {now}, and not {generation}")


class SessionBusy(StoreError):
    """Another executor holds the session's lease, or one of its runs is open."""

    kind: ClassVar[str] = "session_busy"


class UnknownSession(StoreError):
    """There is no session of this name."""

    kind: ClassVar[str] = "unknown_session"


class DuplicateSession(StoreError):
    """There is a session, or a run, of this name already."""

    kind: ClassVar[str] = "duplicate_session"


class StoreFull(StoreError):
    """There is no room on the disk, or the store may not grow. It works again as soon as there is room."""

    kind: ClassVar[str] = "store_full"


class StoreLocked(StoreError):
    """Somebody else has it; the message says who."""

    kind: ClassVar[str] = "store_locked"


class StoreUnusable(StoreError):
    """What is there is no store, is damaged, or was written by a later version; the message says what helps."""

    kind: ClassVar[str] = "store_unusable"


class StoreUnreachable(StoreUnusable):
    """The database does not answer, or lets nobody in; it may do so later."""


class StoreClosed(StoreError):
    """The store was closed, or has failed for good."""

    kind: ClassVar[str] = "store_closed"


class StoreAway(StoreError):
    """The database could not be reached for long. What was to be written may or may not have been kept."""

    kind: ClassVar[str] = "store_away"

    def __init__(self, why: str) -> None:
        super().__init__(f"the database cannot be reached, so that nobody knows what became of this: {why}")
        self.why = why


class NotActive(Fenced):
    """Another daemon has become the active one of this store: this one may write nothing any more."""

    kind: ClassVar[str] = "not_active"

    def __init__(self, holder: str) -> None:
        StoreError.__init__(self, f"daemon {holder} leads this store now; this one may write nothing any more")
        self.holder = holder
