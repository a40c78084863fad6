"""What is read of the store in SQLite, on the reader's connection.

Pages come as one row of JSON each: every row that SQLite yields hands the interpreter's lock over, and a busy event
loop gives it back after 5 ms, which is five seconds for a thousand rows. Bytes are written in hex inside it.
"""

import sqlite3
from typing import Any, Final

import msgspec

from orchestrator.store.base import Record, RunQuery, RunRow, RunRows, SessionView
from orchestrator.store.errors import UnknownSession
from orchestrator.store.sqlite_times import seconds, ticks

_RECORDS: Final = """
SELECT (SELECT id FROM sessions WHERE name = :session), json_group_array(json_array(number, hex(data))) FROM (
    SELECT number, coalesce(data, (SELECT b.data FROM blobs AS b WHERE b.digest = e.blob)) AS data
    FROM events AS e
    WHERE session = (SELECT id FROM sessions WHERE name = :session) AND number > :after ORDER BY number LIMIT :size
)
"""

_records: Final = msgspec.json.Decoder(list[tuple[int, str]])

_SESSIONS: Final = f"""
SELECT json_group_array(json_array(
    name, tenant, coalesce(last, 0), generation, holder, {ticks("created")},
    {ticks("coalesce((SELECT at FROM events WHERE session = id AND number = last), created)")}
)) FROM (
    SELECT *, (SELECT max(number) FROM events WHERE session = id) AS last FROM sessions
    WHERE {{where}} ORDER BY name LIMIT :size
)
"""

_sessions: Final = msgspec.json.Decoder(list[tuple[str, str, int, int, str, int, int]])

_RUNS: Final = f"""
SELECT {{total}}, json_group_array(json_array(
    r.run, s.name, r.tenant, r.job, r.state, r.open <> 0, r.after, {ticks("r.created")}, hex(r.head), r.number
)) FROM (SELECT * FROM runs WHERE {{page}} ORDER BY number DESC LIMIT :size) AS r
JOIN sessions AS s ON s.id = r.session
"""

_runs: Final = msgspec.json.Decoder(list[tuple[str, str, str, str, str, int, int, int, str, int]])


def read(connection: sqlite3.Connection, session: str, after: int, size: int) -> list[Record]:
    """The records behind a number."""
    known, found = connection.execute(_RECORDS, {"session": session, "after": after, "size": size}).fetchone()
    if known is None:
        raise unknown(session)
    records = [Record(number, bytes.fromhex(data)) for number, data in _records.decode(found)]
    # An aggregate's order follows its subquery's in practice, which SQLite does not promise.
    records.sort(key=_number)
    return records


def sessions(connection: sqlite3.Connection, tenant: str, after: str, size: int) -> list[SessionView]:
    """Sessions in the order of their names."""
    where = "name > :after AND tenant = :tenant" if tenant else "name > :after"
    return _session_page(connection, where, {"after": after, "tenant": tenant, "size": size})


def one_session(connection: sqlite3.Connection, session: str) -> SessionView:
    """One session. Raises `UnknownSession`."""
    found = _session_page(connection, "name = :session", {"session": session, "size": 1})
    if not found:
        raise unknown(session)
    return found[0]


def runs(connection: sqlite3.Connection, query: RunQuery) -> RunRows:
    """A page of the index."""
    terms: list[str] = []
    values: dict[str, Any] = {"size": query.size, "before": query.before}
    # A plus keeps an index out of it: among the few that are open, those of a tenant or a job are soon found, while the
    # index of either may name a million that have ended.
    plain = "+" if query.open else ""
    for name in ("tenant", "job"):
        if wanted := getattr(query, name):
            terms.append(f"{plain}{name} = :{name}")
            values[name] = wanted
    if query.session:
        terms.append("session = (SELECT id FROM sessions WHERE name = :session)")
        values["session"] = query.session
    if query.states:
        terms.append("state IN (SELECT value FROM json_each(:states))")
        values["states"] = msgspec.json.encode(sorted(query.states)).decode()
    if query.open is not None:
        # written so that the index of open runs serves
        terms.append("open" if query.open else "NOT open")
    total = f"(SELECT count(*) FROM runs WHERE {' AND '.join(terms) or 'true'})"
    page = " AND ".join([*terms, "number < :before"] if query.before else terms) or "true"
    count, found = connection.execute(_RUNS.format(total=total, page=page), values).fetchone()
    rows = [_row(*fields) for fields in _runs.decode(found)]
    rows.sort(key=_number, reverse=True)
    return RunRows(tuple(rows), count)


def one_run(connection: sqlite3.Connection, run: str) -> RunRow | None:
    """One run of the index."""
    page = _RUNS.format(total="0", page="run = :run")
    _, found = connection.execute(page, {"run": run, "size": 1}).fetchone()
    rows = _runs.decode(found)
    return _row(*rows[0]) if rows else None


def states(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """How many runs there are in each state."""
    where = "WHERE tenant = :tenant" if tenant else ""
    rows = connection.execute(f"SELECT state, count(*) FROM runs {where} GROUP BY state", {"tenant": tenant})
    return dict(rows.fetchall())


def blob(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """A blob's data."""
    row = connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
    return None if row is None else bytes(row[0])


def unknown(session: str) -> UnknownSession:
    """The error for a session that there is not."""
    return UnknownSession(f"there is no session {session}")


def _session_page(connection: sqlite3.Connection, where: str, values: dict[str, Any]) -> list[SessionView]:
    (found,) = connection.execute(_SESSIONS.format(where=where), values).fetchone()
    return [
        SessionView(
            session=name,
            tenant=tenant,
            last=last,
            generation=generation,
            holder=holder,
            created=seconds(created),
            updated=seconds(updated),
        )
        for name, tenant, last, generation, holder, created, updated in sorted(_sessions.decode(found))
    ]


def _row(
    run: str,
    session: str,
    tenant: str,
    job: str,
    state: str,
    opened: int,
    after: int,
    created: int,
    head: str,
    number: int,
) -> RunRow:
    return RunRow(
        run=run,
        session=session,
        tenant=tenant,
        job=job,
        state=state,
        open=bool(opened),
        after=after,
        created=seconds(created),
        head=bytes.fromhex(head),
        number=number,
    )


def _number(row: Record | RunRow) -> int:
    return row.number
