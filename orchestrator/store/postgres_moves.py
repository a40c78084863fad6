"""What a group of moves on sessions comes to: pure, between one read and one write of the database.

The rows of the sessions are locked when they are read, so what is decided here still holds when it is written.
Moves are looked at in their order, each knowing what those before it have done.
"""

from collections.abc import Iterable
from math import inf
from typing import Literal

from msgspec import Struct

from orchestrator.store.base import Batch, RunRow, SessionView
from orchestrator.store.errors import StoreError, UnknownSession
from orchestrator.store.rules import (
    Executors,
    created_by,
    duplicate_run,
    must_append,
    must_be_alive,
    must_be_free,
    must_be_of,
    must_follow,
)

Answer = SessionView | int | None | StoreError


class Move(Struct, frozen=True, kw_only=True):
    """Something that is done to one session: appending to it, or to its lease."""

    kind: Literal["append", "outside", "take", "release"]
    session: str
    batch: Batch | None = None
    generation: int = 0
    holder: str = ""
    tenant: str = ""


class Head(Struct, kw_only=True):
    """Where a session stands. `made` says that the database has none yet, `changed` that it has another."""

    name: str
    tenant: str
    last: int
    generation: int
    holder: str
    created: float
    updated: float
    made: bool = False
    changed: bool = False

    def view(self) -> SessionView:
        """As the store's callers see it."""
        return SessionView(
            session=self.name,
            tenant=self.tenant,
            last=self.last,
            generation=self.generation,
            holder=self.holder,
            created=self.created,
            updated=self.updated,
        )


class Seen(Struct, kw_only=True):
    """What the database holds of what the moves are about.

    `batches` are those stored already, by session and id, with the number of their last record; `runs` those that
    exist; `alive` the executors that are; `now` the server's clock.
    """

    heads: dict[str, Head]
    batches: dict[tuple[str, str], int]
    runs: set[str]
    alive: frozenset[str]
    now: float


class Writes(Struct):
    """What there is to write: `runs` are rows that exist, `new_runs` those that must not."""

    heads: list[Head] = []
    records: list[tuple[str, int, bytes]] = []
    batches: list[tuple[str, str, int]] = []
    new_runs: list[RunRow] = []
    runs: list[RunRow] = []


def plan(moves: Iterable[Move], seen: Seen) -> tuple[list[Answer], Writes]:
    """What each move is answered, and what to write if all goes well. Changes `seen`."""
    planner = _Planner(seen)
    answers = [planner.decide(move) for move in moves]
    return answers, planner.writes()


class _Planner:
    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._executors = Executors()
        for holder in seen.alive:
            self._executors.beat(holder, inf, seen.now)
        self._runs: dict[str, RunRow] = {}
        self._existed = frozenset(seen.runs)
        self._records: list[tuple[str, int, bytes]] = []
        self._batches: list[tuple[str, str, int]] = []

    def decide(self, move: Move) -> Answer:
        try:
            match move.kind:
                case "append":
                    return self._append(move)
                case "outside":
                    return self._outside(move)
                case "take":
                    return self._take(move)
                case "release":
                    self._release(move)
                    return None
        except StoreError as refusal:
            return refusal

    def writes(self) -> Writes:
        heads = [head for _, head in sorted(self._seen.heads.items()) if head.made or head.changed]
        rows = self._runs.values()
        new = [row for row in rows if row.run not in self._existed]
        old = [row for row in rows if row.run in self._existed]
        return Writes(heads, self._records, self._batches, new, old)

    def _append(self, move: Move) -> int:
        head, batch = self._known(move.session), _batch(move)
        stored = self._stored(batch)
        if stored is not None:
            return stored
        must_append(head, batch, move.generation)
        self._check_runs(batch)
        return self._write(head, batch)

    def _outside(self, move: Move) -> int:
        head, batch = self._known(move.session), _batch(move)
        stored = self._stored(batch)
        return self._write(head, batch) if stored is None else stored

    def _take(self, move: Move) -> SessionView:
        head, batch, now = self._seen.heads.get(move.session), move.batch, self._seen.now
        must_be_alive(self._executors, move.holder, now)
        if batch is not None and self._stored(batch) is not None:
            batch = None
        if batch is not None:
            self._check_runs(batch)
        if head is None:
            if batch is None or batch.after:
                raise _unknown(move.session)
            head = _new(move, now)
        must_be_free(head, move.holder, self._executors, now)
        if batch is not None:
            must_follow(head, batch)
            self._seen.heads[head.name] = head
            self._write(head, batch)
        head.holder, head.generation, head.changed = move.holder, head.generation + 1, True
        return head.view()

    def _release(self, move: Move) -> None:
        head = self._seen.heads.get(move.session)
        if head is not None and head.generation == move.generation:
            head.holder, head.changed = "", True

    def _known(self, session: str) -> Head:
        head = self._seen.heads.get(session)
        if head is None:
            raise _unknown(session)
        return head

    def _stored(self, batch: Batch) -> int | None:
        return self._seen.batches.get((batch.session, batch.id))

    def _check_runs(self, batch: Batch) -> None:
        must_be_of(batch)
        for row in created_by(batch):
            if row.run in self._seen.runs:
                raise duplicate_run(row.run)

    def _write(self, head: Head, batch: Batch) -> int:
        for data in batch.records:
            head.last += 1
            self._records.append((head.name, head.last, data))
        head.updated, head.changed = self._seen.now, True
        self._batches.append((head.name, batch.id, head.last))
        self._seen.batches[head.name, batch.id] = head.last
        for row in batch.runs:
            self._put(row)
        return head.last

    def _put(self, row: RunRow) -> None:
        before = self._runs.get(row.run)
        if before is not None:  # begun in this very group
            row = RunRow(
                run=row.run,
                session=before.session,
                tenant=before.tenant,
                job=before.job,
                state=row.state,
                open=row.open,
                after=before.after,
                created=before.created,
                head=row.head,
            )
        self._runs[row.run] = row
        self._seen.runs.add(row.run)


def _batch(move: Move) -> Batch:
    assert move.batch is not None
    return move.batch


def _unknown(session: str) -> UnknownSession:
    return UnknownSession(f"there is no session {session}")


def _new(move: Move, now: float) -> Head:
    return Head(
        name=move.session,
        tenant=move.tenant,
        last=0,
        generation=0,
        holder="",
        created=now,
        updated=now,
        made=True,
    )
