"""What may happen to a session, decided the same way by every store that decides in Python.

A store knows a session by its head: where its log ends, and who holds it. Nothing here waits or does I/O, and what
raises has changed nothing.
"""

from collections.abc import Iterable
from typing import Protocol

from orchestrator.store.base import Batch, RunRow
from orchestrator.store.errors import Conflict, DuplicateSession, Fenced, SessionBusy, StoreError


class Head(Protocol):
    """What the rules need to know of a session."""

    name: str
    generation: int
    holder: str

    @property
    def last(self) -> int:
        """The number of its last event."""
        ...


class Executors:
    """Who is alive, and until when. Kept by stores that only one process at a time can have open: whoever was alive in
    a process before this one is not any more, so nothing of it is written down.
    """

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def beat(self, holder: str, until: float, now: float) -> None:
        """The executor is alive until then. Those whose time is over are forgotten."""
        for other in [other for other, end in self._until.items() if end <= now]:
            del self._until[other]
        self._until[holder] = until

    def drop(self, holder: str) -> None:
        """The executor is gone."""
        self._until.pop(holder, None)

    def alive(self, holder: str, now: float) -> bool:
        """Whether it is alive."""
        return self._until.get(holder, now) > now


def must_append(head: Head, batch: Batch, generation: int) -> None:
    """Refuses a batch of an executor that was taken over (`Fenced`), or one behind another event (`Conflict`)."""
    if generation != head.generation:
        raise Fenced(head.name, generation, head.generation)
    must_follow(head, batch)


def must_follow(head: Head, batch: Batch) -> None:
    """Refuses a batch that goes behind another event than the last."""
    if batch.after != head.last:
        raise Conflict(head.name, batch.after, head.last)


def must_be_alive(executors: Executors, holder: str, now: float) -> None:
    """Refuses an executor that has not announced itself, or whose time is over."""
    if not executors.alive(holder, now):
        raise StoreError(f"executor {holder} is not alive: it has to beat before it takes a session")


def must_be_free(head: Head, holder: str, executors: Executors, now: float) -> None:
    """Refuses a session that another living executor holds."""
    if head.holder and head.holder != holder and executors.alive(head.holder, now):
        raise SessionBusy(f"session {head.name} is held by the executor {head.holder}")


def created_by(batch: Batch) -> tuple[RunRow, ...]:
    """The runs that begin in this batch. A row whose run began before it is an update."""
    if not batch.runs:
        return ()
    return tuple(row for row in batch.runs if row.after >= batch.after)


def duplicate_run(run: str) -> DuplicateSession:
    """The error for a run whose name is taken."""
    return DuplicateSession(f"there is a run {run} already")


def must_be_of(batch: Batch) -> None:
    """Refuses rows of another session than the batch's."""
    strangers: Iterable[str] = (row.run for row in batch.runs if row.session != batch.session)
    for run in strangers:
        raise StoreError(f"run {run} is of another session than {batch.session}, whose batch carries its row")
