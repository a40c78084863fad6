"""What is read from PostgreSQL: each a function of a connection, for one of the readers."""

from collections.abc import Callable
from typing import Any, Final

from orchestrator.store.base import PAGE, Record, RunQuery, RunRow, RunRows, SessionView
from orchestrator.store.errors import UnknownSession
from orchestrator.store.postgres_schema import Link

_RUN: Final = "SELECT run, session, tenant, job, state, open, after, created, head, number FROM runs"
_SESSION: Final = "SELECT session, tenant, last, generation, holder, created, updated FROM sessions"


def records(session: str, after: int, size: int = PAGE) -> Callable[[Link], list[Record]]:
    """The records behind a number. Raises `UnknownSession`."""

    def read(link: Link) -> list[Record]:
        rows = link.execute(
            "SELECT number, data FROM records WHERE session = %s AND number > %s ORDER BY number LIMIT %s",
            [session, after, size],
            binary=True,
        ).fetchall()
        if not rows:
            one_session(session)(link)
        return [Record(*row) for row in rows]

    return read


def one_session(session: str) -> Callable[[Link], SessionView]:
    """One session. Raises `UnknownSession`."""

    def read(link: Link) -> SessionView:
        row = link.execute(f"{_SESSION} WHERE session = %s", [session]).fetchone()
        if row is None:
            raise UnknownSession(f"there is no session {session}")
        return _view(row)

    return read


def some_sessions(tenant: str, after: str, size: int) -> Callable[[Link], list[SessionView]]:
    """Sessions in the order of their names."""
    where, values = "session > %s", [after]
    if tenant:
        where, values = f"{where} AND tenant = %s", [after, tenant]

    def read(link: Link) -> list[SessionView]:
        rows = link.execute(f"{_SESSION} WHERE {where} ORDER BY session LIMIT %s", [*values, size]).fetchall()
        return [_view(row) for row in rows]

    return read


def one_run(run: str) -> Callable[[Link], RunRow | None]:
    """What the index says of a run."""

    def read(link: Link) -> RunRow | None:
        row = link.execute(f"{_RUN} WHERE run = %s", [run]).fetchone()
        return None if row is None else _run(row)

    return read


def some_runs(query: RunQuery) -> Callable[[Link], RunRows]:
    """Runs, the newest first."""
    where, values = _matching(query)
    page, more = where, list(values)
    if query.before:
        page, more = f"{where} AND number < %s", [*values, query.before]

    def read(link: Link) -> RunRows:
        rows = link.execute(f"{_RUN} WHERE {page} ORDER BY number DESC LIMIT %s", [*more, query.size]).fetchall()
        total = link.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()
        assert total is not None
        return RunRows(tuple(_run(row) for row in rows), total[0])

    return read


def states(tenant: str) -> Callable[[Link], dict[str, int]]:
    """How many runs there are in each state."""
    where, values = ("WHERE tenant = %s", [tenant]) if tenant else ("", [])

    def read(link: Link) -> dict[str, int]:
        return dict(link.execute(f"SELECT state, count(*) FROM runs {where} GROUP BY state", values).fetchall())

    return read


def blob(digest: str) -> Callable[[Link], bytes | None]:
    """A blob."""

    def read(link: Link) -> bytes | None:
        row = link.execute("SELECT data FROM blobs WHERE digest = %s", [digest], binary=True).fetchone()
        return None if row is None else bytes(row[0])

    return read


def _matching(query: RunQuery) -> tuple[str, list[Any]]:
    parts: list[str] = ["true"]
    values: list[Any] = []
    if query.states:
        parts.append("state = ANY(%s)")
        values.append(sorted(query.states))
    for name, value in (("tenant", query.tenant), ("job", query.job), ("session", query.session)):
        if value:
            parts.append(f"{name} = %s")
            values.append(value)
    if query.open is not None:
        parts.append("open" if query.open else "NOT open")
    return " AND ".join(parts), values


def _view(row: tuple[Any, ...]) -> SessionView:
    return SessionView(**dict(zip(SessionView.__struct_fields__, row, strict=True)))


def _run(row: tuple[Any, ...]) -> RunRow:
    return RunRow(**dict(zip(_RUN_FIELDS, row, strict=True)))


_RUN_FIELDS: Final = ("run", "session", "tenant", "job", "state", "open", "after", "created", "head", "number")
