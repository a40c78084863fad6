"""Connections to PostgreSQL, and what its errors mean to a store.

A connection that stands in the middle of a transaction while its process hangs would hold its row locks for ever; the
server ends it after `IDLE_SECONDS`, so that another daemon's way is never blocked for longer than that.
No message quotes the address: it may hold a password.
"""

from enum import Enum, auto
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from orchestrator.store.errors import StoreError, StoreFull, StoreUnreachable, StoreUnusable
from orchestrator.store.postgres_schema import Link

CONNECT_SECONDS: Final = 5
IDLE_SECONDS: Final = 10
"""How long a transaction may stand still before the server ends it; well below a lease."""

_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "headrace",
}
_SETTINGS: Final = sql.SQL(
    "SET search_path TO {schema}; SET synchronous_commit TO on; SET default_transaction_isolation TO 'read committed';"
    " SET idle_in_transaction_session_timeout TO {idle}; SET client_min_messages TO warning"
)


class Fault(Enum):
    """What to do about an error of the database."""

    GONE = auto()
    """The connection is no more: connect anew, and do the same again."""
    AGAIN = auto()
    """Somebody else was in the way: do the same again."""
    REFUSED = auto()
    """The same again would fail again."""


class Address:
    """Where the database is. Raises `StoreUnusable` for what is no address."""

    def __init__(self, dsn: str, schema: str) -> None:
        try:
            given = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            raise StoreUnusable(
                "the address of the database cannot be read; one looks like postgresql://user:password@host:5432/name"
            ) from None
        self._options: dict[str, Any] = {**_DEFAULTS, **given}
        self.schema = schema

    def connect(self) -> Link:
        """A new connection; each statement is a transaction unless one is begun. Raises `psycopg.Error`."""
        # no prepared statements: a pipeline that is aborted skips those that it was to prepare, and the client does
        # not know which
        link = psycopg.connect("", autocommit=True, prepare_threshold=None, **self._options)
        try:
            link.execute(_SETTINGS.format(schema=sql.Identifier(self.schema), idle=sql.Literal(f"{IDLE_SECONDS}s")))
        except BaseException:
            link.close()
            raise
        return link

    def __repr__(self) -> str:
        host, port = self._options.get("host", "the local socket"), self._options.get("port", 5432)
        return f"{host}:{port}, database {self._options.get('dbname', '')!r}, schema {self.schema!r}"


def fault(error: Exception, link: Link | None) -> Fault:
    """What to do about it."""
    if not isinstance(error, psycopg.Error):
        return Fault.REFUSED
    state = error.sqlstate or ""
    if link is None or link.closed or link.broken:
        return Fault.GONE
    # 57P: the server goes down or comes up; 08: the connection failed; 25006: a primary that became a replica
    if state.startswith(("57P", "08")) or state in ("25006", "25P03"):
        return Fault.GONE
    # serialization, deadlock, lock not available; unique: somebody made the same at the same time, and will be seen now
    if state in ("40001", "40P01", "55P03", "23505"):
        return Fault.AGAIN
    return Fault.REFUSED


def as_store_error(error: Exception) -> Exception:
    """The error as a store's caller is told."""
    if not isinstance(error, psycopg.Error):
        return error
    said = words(error)
    if error.sqlstate in ("53100", "53400"):
        return StoreFull(f"the database has no more room: {said}; it goes on as soon as there is some")
    return StoreError(f"the database refused it: {said}")


def cannot_connect(address: Address, error: psycopg.Error) -> StoreError:
    """Why there is no store at this address."""
    kind = StoreUnreachable if isinstance(error, psycopg.OperationalError) else StoreUnusable
    return kind(f"the database at {address!r} cannot be used: {words(error)}")


def words(error: psycopg.Error) -> str:
    """What the server, or the client library, says of it, in one line and without the values it was about."""
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
