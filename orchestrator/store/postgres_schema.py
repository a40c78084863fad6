"""The tables in PostgreSQL, and how an older version of them becomes this one.

They stand in a schema of their own. `meta.version` says which version they are; whoever opens the store brings them up
to this one in one transaction, under a lock, so that many processes may start at once. Text is compared by bytes, so
that names have one order everywhere. Times of leases are the server's clock; no client's clock decides who is alive.
"""

from collections.abc import Callable
from typing import Final

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from orchestrator.store.errors import StoreUnusable

Link = Connection[TupleRow]

VERSION: Final = 1

_LOCK: Final = 0x6865_6164_7261_6365
"""An advisory lock of the whole server: `headrace`, in ASCII."""

_TABLES: Final = """
CREATE TABLE sessions (
    session text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    generation bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    created double precision NOT NULL,
    updated double precision NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX sessions_tenant ON sessions (tenant, session);

CREATE TABLE executors (
    holder text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL
);

CREATE TABLE records (
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, number)
);

CREATE TABLE batches (
    session text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (session, id)
);

CREATE TABLE runs (
    run text COLLATE "C" PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    session text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    open boolean NOT NULL,
    after bigint NOT NULL,
    created double precision NOT NULL,
    head bytea NOT NULL
);
CREATE INDEX runs_session ON runs (session, number);
CREATE INDEX runs_tenant ON runs (tenant, number);
CREATE INDEX runs_job ON runs (job, number) WHERE job <> '';
CREATE INDEX runs_open ON runs (number) WHERE open;

CREATE TABLE blobs (
    digest text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL,
    added double precision NOT NULL
);

CREATE TABLE daemon (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL
);
INSERT INTO daemon VALUES (true, '', 0, '-infinity');
"""

_STEPS: Final[tuple[str, ...]] = (_TABLES,)
"""What leads from each version to the next; the first step makes version 1 of nothing."""


def prepare(link: Link, schema: str, more: Callable[[Link], object] | None = None) -> None:
    """Makes the schema, or brings it up to this version. Raises `StoreUnusable` where a later version wrote it.

    `more` makes what else belongs to the store; it is run each time and must not mind that.
    """
    name = sql.Identifier(schema)
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        link.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        link.execute("CREATE TABLE IF NOT EXISTS meta (version integer NOT NULL)")
        row = link.execute("SELECT version FROM meta").fetchone()
        version = 0 if row is None else int(row[0])
        if version > VERSION:
            raise StoreUnusable(
                f"the tables in schema {schema} are of version {version}, written by a later release; this release"
                f" knows versions up to {VERSION}: use the later release, or another database"
            )
        for step in _STEPS[version:]:
            link.execute(step)
        if row is None:
            link.execute("INSERT INTO meta VALUES (%s)", [VERSION])
        elif version < VERSION:
            link.execute("UPDATE meta SET version = %s", [VERSION])
        if more is not None:
            more(link)
