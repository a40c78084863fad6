"""The tables in SQLite, how an older version of them becomes this one, and how a connection is opened.

A session's last number is its greatest, so that appending changes nothing but `events`: a table in the order of
arrival, whose pages fill up one after the other however many sessions grow at once. (Rows clustered by session cost one
page each in the log of a group: ten thousand appends wrote five times as much.)
"""

import sqlite3
from pathlib import Path
from typing import Final

from orchestrator.store.errors import StoreUnusable
from orchestrator.store.sqlite_errors import problem

APPLICATION: Final = 0x48656164
"""`Head`, in ASCII: says in the file's header whose it is."""

_TABLES: Final = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    generation INTEGER NOT NULL,
    holder TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX sessions_of_tenant ON sessions (tenant, name);

CREATE TABLE events (
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    batch TEXT NOT NULL,
    at REAL NOT NULL,
    data BLOB,
    blob TEXT
);
CREATE UNIQUE INDEX events_in_order ON events (session, number);
CREATE INDEX events_with_blob ON events (blob) WHERE blob IS NOT NULL;

CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    job TEXT NOT NULL,
    state TEXT NOT NULL,
    open INTEGER NOT NULL,
    after INTEGER NOT NULL,
    created REAL NOT NULL,
    head BLOB NOT NULL
);
CREATE INDEX runs_of_session ON runs (session);
CREATE INDEX runs_of_tenant ON runs (tenant, state);
CREATE INDEX runs_of_job ON runs (job) WHERE job <> '';
CREATE INDEX runs_open ON runs (number) WHERE open;

CREATE TABLE blobs (
    digest TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    kept REAL NOT NULL,
    put INTEGER NOT NULL
);

CREATE VIEW log AS
    SELECT s.name AS session, e.number, e.at,
           CAST(coalesce(e.data, (SELECT data FROM blobs WHERE digest = e.blob)) AS TEXT) AS event
    FROM events e JOIN sessions s ON s.id = e.session;
"""

STEPS: Final[tuple[str, ...]] = (_TABLES,)
"""What leads from each version to the next; the first makes version 1 of an empty file."""


def connect(path: Path, *, busy_seconds: float, read_only: bool = False) -> sqlite3.Connection:
    """A connection for one thread at a time."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=busy_seconds, cached_statements=512
    )
    try:
        if read_only:
            connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -32768")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, path: Path, max_pages: int | None) -> None:
    """Makes the tables, or brings them up to this version. Raises `StoreError`."""
    try:
        _recognise(connection, path)
        # The mode is kept in the file; the rest belongs to the connection.
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreUnusable(f"store {path}: this file system cannot share memory, which SQLite's log needs")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        if max_pages is not None:
            connection.execute(f"PRAGMA max_page_count = {max_pages:d}")
        _upgrade(connection)
    except sqlite3.Error as error:
        raise problem(error, path) from error


def _recognise(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (application or tables):
        raise StoreUnusable(f"store {path}: this is another program's database; name another file")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise StoreUnusable(
            f"store {path}: it was written by a later release (version {version} of the tables, and this release knows"
            f" {len(STEPS)}); use that release, or another file"
        )


def _upgrade(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, step in enumerate(STEPS[version:], version + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION}; COMMIT;"
        )
