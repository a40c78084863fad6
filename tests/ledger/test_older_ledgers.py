"""A ledger that an earlier release wrote is taken over."""

import sqlite3

from orchestrator.store.ledger_rows import COLUMNS
from orchestrator.store.sqlite_ledger import make_ledger_tables

BEFORE_WAITS = """
CREATE TABLE calls (
    key TEXT PRIMARY KEY, tenant TEXT NOT NULL, job TEXT NOT NULL, run TEXT NOT NULL, priority INTEGER NOT NULL,
    backend TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, arrived REAL NOT NULL, sent REAL NOT NULL,
    first_token REAL, ended REAL, outcome TEXT NOT NULL, retried INTEGER NOT NULL, waited REAL NOT NULL,
    held_by TEXT NOT NULL, input INTEGER, cached INTEGER, cache_write INTEGER, output INTEGER, micro_dollars INTEGER,
    unknown_tokens INTEGER NOT NULL, unknown_micro_dollars INTEGER NOT NULL,
    held_input INTEGER NOT NULL, held_output INTEGER NOT NULL
) STRICT;
INSERT INTO calls VALUES ('old', 'web', '', '', 1, 'main', 'one', 'm', 1.0, 2.0, NULL, 3.0, 'ok', 0, 1.0, '',
                          5, 0, 0, 6, 7, 0, 0, 8, 9);
"""
"""The table as it was before calls said what they waited for, with a call."""


def test_sqlite_gives_old_calls_the_new_column() -> None:
    """Rows of the earlier table stay, can be read by the columns of today, and say nothing of what they waited for."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(BEFORE_WAITS)
    make_ledger_tables(connection)
    make_ledger_tables(connection)
    row = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM calls").fetchone()
    assert dict(zip(COLUMNS, row, strict=True))["waits"] == ""
    assert row[0] == "old"
    connection.close()
