"""The ledger in SQLite: a table of calls beside the sessions, and what they came to by tenant and day.

Triggers keep the sums, so that they change in the transaction that changes a call, whoever does it; pruning has no
trigger, so they outlive the calls. Sums take in what is open as unknown, and let it go when the call has ended.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from orchestrator.store.ledger_port import PAGE, CallRow, SentRow, SpentRow, WentRow
from orchestrator.store.ledger_rows import COLUMNS, LOST, Database, DatabaseLedger, fit_to_keep, went_row
from orchestrator.store.sqlite_insert import insert


def _count(row: str, sign: str) -> str:
    tokens = " + ".join(f"coalesce({row}.{name}, 0)" for name in ("input", "cached", "cache_write", "output"))
    return f"""
    INSERT INTO spent VALUES (
        {row}.tenant, strftime('%Y-%m-%d', {row}.arrived, 'unixepoch'),
        {sign} ({row}.ended IS NOT NULL), {sign} ({tokens}), {sign} coalesce({row}.micro_dollars, 0),
        {sign} {row}.unknown_tokens, {sign} {row}.unknown_micro_dollars
    ) ON CONFLICT (tenant, day) DO UPDATE SET
        calls = calls + excluded.calls, tokens = tokens + excluded.tokens,
        micro_dollars = micro_dollars + excluded.micro_dollars,
        unknown_tokens = unknown_tokens + excluded.unknown_tokens,
        unknown_micro_dollars = unknown_micro_dollars + excluded.unknown_micro_dollars;"""


_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY, tenant TEXT NOT NULL, job TEXT NOT NULL, run TEXT NOT NULL, priority INTEGER NOT NULL,
    backend TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, arrived REAL NOT NULL, sent REAL NOT NULL,
    first_token REAL, ended REAL, outcome TEXT NOT NULL, retried INTEGER NOT NULL, waited REAL NOT NULL,
    held_by TEXT NOT NULL, input INTEGER, cached INTEGER, cache_write INTEGER, output INTEGER, micro_dollars INTEGER,
    unknown_tokens INTEGER NOT NULL, unknown_micro_dollars INTEGER NOT NULL,
    held_input INTEGER NOT NULL, held_output INTEGER NOT NULL, waits TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS calls_arrived ON calls (arrived);
CREATE INDEX IF NOT EXISTS calls_run ON calls (run) WHERE run <> '';
CREATE INDEX IF NOT EXISTS calls_sent ON calls (sent) WHERE sent > 0;
CREATE INDEX IF NOT EXISTS calls_ended ON calls (ended);
CREATE TABLE IF NOT EXISTS spent (
    tenant TEXT NOT NULL, day TEXT NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL,
    micro_dollars INTEGER NOT NULL, unknown_tokens INTEGER NOT NULL, unknown_micro_dollars INTEGER NOT NULL,
    PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS calls_counted AFTER INSERT ON calls BEGIN {_count("new", "+")} END;
CREATE TRIGGER IF NOT EXISTS calls_recounted AFTER UPDATE ON calls BEGIN {_count("old", "-")} {_count("new", "+")} END;
"""

_UPSERT: Final = (
    f"INSERT INTO calls ({', '.join(COLUMNS)}) VALUES ",
    f" ON CONFLICT (key) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
    " WHERE ended IS NULL",
)

_SENT: Final = """
SELECT backend, endpoint, tenant, at, sum(calls), sum(open), sum(input), sum(cached), sum(output),
       sum(held_input), sum(held_output)
FROM (
    SELECT backend, endpoint, tenant, CAST(sent / :slot AS INTEGER) * :slot AS at, 1 + retried AS calls,
           ended IS NULL AS open,
           CASE WHEN input IS NULL THEN held_input ELSE input + coalesce(cached, 0) + coalesce(cache_write, 0) END
               AS input,
           coalesce(cached, 0) AS cached, CASE WHEN ended IS NULL THEN held_output ELSE 0 END AS output,
           (1 + retried) * held_input AS held_input, (1 + retried) * held_output AS held_output
    FROM calls WHERE sent >= :since AND sent > 0
    UNION ALL
    SELECT backend, endpoint, tenant, CAST(ended / :slot AS INTEGER) * :slot, 0, 0, 0, 0,
           coalesce(output, held_output), 0, 0
    FROM calls WHERE ended >= :since AND +sent > 0
)
GROUP BY backend, endpoint, tenant, at ORDER BY backend, endpoint, tenant, at
"""
"""`sent > 0` says that the index on it will do. It comes last, because SQLite begins at the first bound that it reads,
and would go through all calls there ever were; with a plus it is kept from choosing that index at all."""


_WENT: Final = """
SELECT tenant, priority, job, run = :run AND run <> '' AS own, count(*) AS calls,
       sum(CASE WHEN input IS NULL THEN held_input ELSE input + coalesce(cached, 0) + coalesce(cache_write, 0) END
           + coalesce(output, held_output))
FROM calls WHERE sent >= :since AND sent < :until AND sent > 0 AND backend = :backend
GROUP BY tenant, priority, job, own ORDER BY calls DESC, tenant, priority, job, own
"""


def make_ledger_tables(connection: sqlite3.Connection) -> None:
    """Makes the ledger's tables where they are not there yet; inside of whatever transaction there is."""
    statement = ""
    for part in _TABLES.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \n;"):
                connection.execute(statement)
            statement = ""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(calls)")}
    if "waits" not in columns:  # made by a release before calls said what they waited for
        connection.execute("ALTER TABLE calls ADD COLUMN waits TEXT NOT NULL DEFAULT ''")


def prune_calls(connection: sqlite3.Connection, before: float) -> int:
    """Removes calls that ended before a time; what they came to stays. How many there were."""
    return connection.execute("DELETE FROM calls WHERE ended < ?", [before]).rowcount


class SqliteLedger(DatabaseLedger):
    """The ledger. The store makes its tables with `make_ledger_tables`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _keep)

    async def end_open(self, at: float) -> int:
        def end(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "UPDATE calls SET ended = ?, outcome = ? WHERE ended IS NULL", [at, LOST]
            ).rowcount

        return await self._database.submit(end)

    async def spent(self, since: str = "") -> list[SpentRow]:
        fields = SpentRow.__struct_fields__
        query = f"SELECT {', '.join(fields)} FROM spent WHERE day >= ? ORDER BY tenant, day"
        rows = await self._all(query, [since])
        return [SpentRow(**dict(zip(fields, row, strict=True))) for row in rows]

    async def sent(self, since: float, slot: float) -> list[SentRow]:
        rows = await self._all(_SENT, {"since": since, "slot": float(slot)})
        return [SentRow(**dict(zip(SentRow.__struct_fields__, row, strict=True))) for row in rows]

    async def calls(
        self, *, run: str = "", key: str = "", tenant: str = "", since: float = 0.0, size: int = PAGE
    ) -> list[CallRow]:
        wanted = [(name, value) for name, value in (("key", key), ("run", run), ("tenant", tenant)) if value]
        where = " AND ".join(("arrived >= ?", *(f"{name} = ?" for name, _ in wanted)))
        query = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE {where} ORDER BY arrived, key LIMIT ?"
        rows = await self._all(query, [since, *(value for _, value in wanted), size])
        return [CallRow(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    async def went(self, backend: str, since: float, until: float, *, run: str = "") -> list[WentRow]:
        rows = await self._all(_WENT, {"backend": backend, "since": since, "until": until, "run": run})
        return [went_row(row) for row in rows]

    async def slowest(self, since: float, *, tenant: str = "", job: str = "", size: int = 20) -> list[CallRow]:
        wanted = [(name, value) for name, value in (("tenant", tenant), ("job", job)) if value]
        where = " AND ".join(("arrived >= ?", *(f"{name} = ?" for name, _ in wanted)))
        query = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE {where} ORDER BY waited DESC, key LIMIT ?"
        rows = await self._all(query, [since, *(value for _, value in wanted), size])
        return [CallRow(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    async def _all(self, query: str, values: Any) -> list[tuple[Any, ...]]:
        return await self._database.query(lambda connection: connection.execute(query, values).fetchall())


def _keep(connection: sqlite3.Connection, rows: Sequence[CallRow]) -> None:
    insert(connection, _UPSERT, [fit_to_keep(row) for row in rows])
