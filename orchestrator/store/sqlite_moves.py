"""What the writer does for the store: each move checks first and changes then, so that one that raises changed nothing.

All happen on the writer's thread, one after the other.
"""

from collections.abc import Callable, Sequence

from orchestrator.store.base import Batch, SessionView
from orchestrator.store.errors import UnknownSession
from orchestrator.store.rules import Executors, must_append, must_be_alive, must_be_free, must_follow
from orchestrator.store.sqlite_group import Group

Move = Callable[[Group], object]


def append(batch: Batch, generation: int) -> Callable[[Group], int]:
    """An executor's batch."""

    def move(group: Group) -> int:
        head = group.head(batch.session)
        stored = group.stored(head, batch.id)
        if stored is not None:
            return stored
        must_append(head, batch, generation)
        group.check_runs(batch)
        last = group.add(head, batch.id, batch.records)
        group.put_runs(head, batch.runs)
        return last

    return move


def append_external(session: str, key: str, records: Sequence[bytes]) -> Callable[[Group], int]:
    """Records from outside."""

    def move(group: Group) -> int:
        head = group.head(session)
        stored = group.stored(head, key)
        return group.add(head, key, records) if stored is None else stored

    return move


def take(
    executors: Executors, session: str, holder: str, tenant: str, batch: Batch | None
) -> Callable[[Group], SessionView]:
    """A session's lease, and a batch with it."""

    def move(group: Group) -> SessionView:
        must_be_alive(executors, holder, group.now)
        head = group.find(session)
        new = batch is not None and (head is None or group.stored(head, batch.id) is None)
        if batch is not None and new:
            group.check_runs(batch)
        if head is None:
            if batch is None or batch.after:
                raise UnknownSession(f"there is no session {session}")
            head = group.create(session, tenant)
        else:
            must_be_free(head, holder, executors, group.now)
        if batch is not None and new:
            must_follow(head, batch)
            group.add(head, batch.id, batch.records)
            group.put_runs(head, batch.runs)
        head.generation += 1
        head.holder = holder
        group.changed(head)
        return head.view()

    return move


def release(session: str, generation: int) -> Callable[[Group], None]:
    """Lets go of a lease."""

    def move(group: Group) -> None:
        head = group.find(session)
        if head is not None and head.generation == generation and head.holder:
            head.holder = ""
            group.changed(head)

    return move


def beat(executors: Executors, holder: str, seconds: float) -> Callable[[Group], None]:
    """An executor is alive. It goes through the writer so that it stops where the writer does."""
    return lambda group: executors.beat(holder, group.now + seconds, group.now)


def drop(executors: Executors, holder: str) -> Callable[[Group], None]:
    """An executor is gone."""
    return lambda group: executors.drop(holder)
