"""One group of work as one transaction: a round trip that reads and locks, what is to be done, one that writes.

Ten thousand batches cost as many statements as one does: arrays go to the server, which makes rows of them. Sessions
are locked in the order of their names, so that two processes never wait for each other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import psycopg
from psycopg import Cursor
from psycopg.rows import TupleRow

from orchestrator.store.base import RunRow
from orchestrator.store.errors import NotActive, StoreError
from orchestrator.store.postgres_moves import Answer, Head, Move, Seen, Writes, plan
from orchestrator.store.postgres_schema import Link

NOTICE_BYTES: Final = 7_000
"""What one notification may say; the server takes 8,000 bytes."""

_ACTIVE: Final = "SELECT epoch, holder FROM daemon FOR SHARE"
_SESSIONS: Final = (
    "SELECT session, tenant, last, generation, holder, created, updated FROM sessions"
    " WHERE session = ANY(%b::text[]) ORDER BY session FOR UPDATE"
)
_BATCHES: Final = (
    "SELECT session, id, last FROM unnest(%b::text[], %b::text[]) AS asked (session, id)"
    " JOIN batches USING (session, id)"
)
_RUNS: Final = "SELECT run FROM runs WHERE run = ANY(%b::text[])"
_ALIVE: Final = "SELECT holder FROM executors WHERE until > clock_timestamp()"
_NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"

_MAKE: Final = (
    "INSERT INTO sessions (session, tenant, last, generation, holder, created, updated) SELECT * FROM"
    " unnest(%b::text[], %b::text[], %b::int8[], %b::int8[], %b::text[], %b::float8[], %b::float8[])"
)
_CHANGE: Final = (
    "UPDATE sessions SET last = n.last, generation = n.generation, holder = n.holder, updated = n.updated FROM"
    " unnest(%b::text[], %b::int8[], %b::int8[], %b::text[], %b::float8[])"
    " AS n (session, last, generation, holder, updated) WHERE sessions.session = n.session"
)
_APPEND: Final = "INSERT INTO records (session, number, data) SELECT * FROM unnest(%b::text[], %b::int8[], %b::bytea[])"
_REMEMBER: Final = "INSERT INTO batches (session, id, last) SELECT * FROM unnest(%b::text[], %b::text[], %b::int8[])"
_INDEX: Final = (
    "INSERT INTO runs (run, session, tenant, job, state, open, after, created, head) SELECT * FROM"
    " unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bool[], %b::int8[], %b::float8[],"
    " %b::bytea[])"
)
_UPDATE: Final = (
    "UPDATE runs SET state = n.state, open = n.open, head = n.head FROM"
    " unnest(%b::text[], %b::text[], %b::bool[], %b::bytea[]) AS n (run, state, open, head) WHERE runs.run = n.run"
)
NOTIFY: Final = "SELECT pg_notify(current_schema(), %s)"
"""The schema's name is its channel's: what several stores of one database say stays apart."""


class Lost(StoreError):
    """The transaction was rolled back although nothing raised: a piece of work hid an error."""


def commit(
    link: Link, epoch: int, moves: Sequence[Move], work: Sequence[Callable[[Link], Any]]
) -> tuple[list[Answer], list[Any]]:
    """Does all of it in one transaction, and what each is answered. Nothing has happened if it raises.

    With an `epoch`, only while that is the active daemon's; raises `NotActive` otherwise.
    """
    try:
        seen = _begin(link, epoch, moves)
        values = [one(link) for one in work]
        answers: list[Answer] = []
        writes = Writes()
        if moves:
            answers, writes = plan(moves, seen)
        with link.pipeline():
            _write(link, writes)
            ended = link.execute("COMMIT")
        _require_committed(ended)
    except BaseException:
        _roll_back(link)
        raise
    return answers, values


def _require_committed(ended: Cursor[TupleRow]) -> None:
    if ended.statusmessage != "COMMIT":
        raise Lost("the database took the group back: a part of it had failed unseen")


def _roll_back(link: Link) -> None:
    try:
        if not link.closed:
            link.execute("ROLLBACK")
    except psycopg.Error:
        link.close()


def _begin(link: Link, epoch: int, moves: Sequence[Move]) -> Seen:
    names = sorted({move.session for move in moves})
    stored = sorted({(move.session, move.batch.id) for move in moves if move.batch is not None})
    runs = sorted({row.run for move in moves if move.batch is not None for row in move.batch.runs})
    none: Cursor[TupleRow] | None = None
    with link.pipeline():
        link.execute("BEGIN")
        active = link.execute(_ACTIVE) if epoch else none
        # the lock comes first: what is read after it is newer than whoever held it
        sessions = link.execute(_SESSIONS, [names]) if names else none
        batches = link.execute(_BATCHES, _columns(stored)) if stored else none
        known = link.execute(_RUNS, [runs]) if runs else none
        alive = link.execute(_ALIVE) if any(move.kind == "take" for move in moves) else none
        now = link.execute(_NOW)
        if active is not None:
            _require_active(active, epoch)
        return Seen(
            heads={row[0]: _head(row) for row in sessions or ()},
            batches={(row[0], row[1]): row[2] for row in batches or ()},
            runs={row[0] for row in known or ()},
            alive=frozenset(row[0] for row in alive or ()),
            now=_one(now)[0],
        )


def _require_active(cursor: Cursor[TupleRow], epoch: int) -> None:
    found, holder = _one(cursor)
    if found != epoch:
        raise NotActive(holder)


def _write(link: Link, writes: Writes) -> None:
    made = [h for h in writes.heads if h.made]
    changed = [h for h in writes.heads if not h.made]
    if made:
        rows = [(h.name, h.tenant, h.last, h.generation, h.holder, h.created, h.updated) for h in made]
        link.execute(_MAKE, _columns(rows))
    if changed:
        link.execute(_CHANGE, _columns([(h.name, h.last, h.generation, h.holder, h.updated) for h in changed]))
    if writes.records:
        link.execute(_APPEND, _columns(writes.records))
    if writes.batches:
        link.execute(_REMEMBER, _columns(writes.batches))
    if writes.new_runs:
        link.execute(_INDEX, _columns([_row(run) for run in writes.new_runs]))
    if writes.runs:
        link.execute(_UPDATE, _columns([(run.run, run.state, run.open, run.head) for run in writes.runs]))
    grown = {session for session, _, _ in writes.records}
    if grown:
        link.execute(NOTIFY, [notice(grown)])


def notice(sessions: set[str]) -> str:
    """Says which sessions have grown; empty for too many to name: look at all."""
    text = msgspec.json.encode(sorted(sessions)).decode()
    return text if len(text.encode()) <= NOTICE_BYTES else ""


def noticed(text: str) -> list[str] | None:
    """The sessions that a notice names; None for all."""
    return msgspec.json.decode(text, type=list[str]) if text else None


def _head(row: TupleRow) -> Head:
    name, tenant, last, generation, holder, created, updated = row
    return Head(
        name=name,
        tenant=tenant,
        last=last,
        generation=generation,
        holder=holder,
        created=created,
        updated=updated,
    )


def _row(run: RunRow) -> tuple[Any, ...]:
    return (run.run, run.session, run.tenant, run.job, run.state, run.open, run.after, run.created, run.head)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _one(cursor: Cursor[TupleRow]) -> TupleRow:
    row = cursor.fetchone()
    assert row is not None
    return row
