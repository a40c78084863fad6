"""The ledger in PostgreSQL: a table of calls beside the sessions, and what they came to by tenant and day.

Triggers keep the sums, one for all rows of a statement, so that they change in the transaction that changes a call;
pruning has no trigger, so they outlive the calls. Sums take in what is open as unknown, and let it go when the call has
ended. Rows go to the server as arrays, a statement for a batch, whatever its size.
"""

from collections.abc import Sequence
from typing import Any, Final

from orchestrator.store.ledger_port import PAGE, CallRow, SentRow, SpentRow, WentRow
from orchestrator.store.ledger_rows import COLUMNS, LOST, Database, DatabaseLedger, fit_to_keep, went_row

_TYPES: Final = {
    **dict.fromkeys(
        ("key", "tenant", "job", "run", "backend", "endpoint", "model", "outcome", "held_by", "waits"), "text"
    ),
    **dict.fromkeys(("arrived", "sent", "first_token", "ended", "waited"), "float8"),
}
_MAY_BE_UNKNOWN: Final = frozenset(
    {"first_token", "ended", "input", "cached", "cache_write", "output", "micro_dollars"}
)


def _type(column: str) -> str:
    return _TYPES.get(column, "int8")


def _column(name: str) -> str:
    order = ' COLLATE "C"' if _type(name) == "text" else ""
    return f"{name} {_type(name)}{order}{'' if name in _MAY_BE_UNKNOWN else ' NOT NULL'}"


_CHANGED: Final = """
SELECT tenant, to_char(to_timestamp(arrived) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
       {sign} (ended IS NOT NULL)::int AS calls,
       {sign} (coalesce(input, 0) + coalesce(cached, 0) + coalesce(cache_write, 0) + coalesce(output, 0)) AS tokens,
       {sign} coalesce(micro_dollars, 0) AS micro_dollars,
       {sign} unknown_tokens AS unknown_tokens, {sign} unknown_micro_dollars AS unknown_micro_dollars
FROM {rows}
"""


def _function(name: str, *changed: str) -> str:
    return f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO spent SELECT tenant, day, sum(calls), sum(tokens), sum(micro_dollars), sum(unknown_tokens),
        sum(unknown_micro_dollars) FROM ({" UNION ALL ".join(changed)}) AS changed GROUP BY tenant, day
        ORDER BY tenant, day
    ON CONFLICT (tenant, day) DO UPDATE SET
        calls = spent.calls + excluded.calls, tokens = spent.tokens + excluded.tokens,
        micro_dollars = spent.micro_dollars + excluded.micro_dollars,
        unknown_tokens = spent.unknown_tokens + excluded.unknown_tokens,
        unknown_micro_dollars = spent.unknown_micro_dollars + excluded.unknown_micro_dollars;
    RETURN NULL;
END $$;
"""


_NEW: Final = _CHANGED.format(sign="+", rows="new_calls")
_OLD: Final = _CHANGED.format(sign="-", rows="old_calls")

_TABLES: Final = f"""
CREATE TABLE calls ({", ".join(map(_column, COLUMNS))}, PRIMARY KEY (key));
CREATE INDEX calls_arrived ON calls (arrived);
CREATE INDEX calls_run ON calls (run) WHERE run <> '';
CREATE INDEX calls_sent ON calls (sent) WHERE sent > 0;
CREATE INDEX calls_ended ON calls (ended);
CREATE TABLE spent (
    tenant text COLLATE "C" NOT NULL, day text COLLATE "C" NOT NULL, calls int8 NOT NULL, tokens int8 NOT NULL,
    micro_dollars int8 NOT NULL, unknown_tokens int8 NOT NULL, unknown_micro_dollars int8 NOT NULL,
    PRIMARY KEY (tenant, day)
);
{_function("count_new_calls", _NEW)}
{_function("recount_calls", _OLD, _NEW)}
CREATE TRIGGER calls_counted AFTER INSERT ON calls REFERENCING NEW TABLE AS new_calls
    FOR EACH STATEMENT EXECUTE FUNCTION count_new_calls();
CREATE TRIGGER calls_recounted AFTER UPDATE ON calls REFERENCING OLD TABLE AS old_calls NEW TABLE AS new_calls
    FOR EACH STATEMENT EXECUTE FUNCTION recount_calls();
"""

_UPSERT: Final = (
    f"INSERT INTO calls ({', '.join(COLUMNS)})"
    f" SELECT * FROM unnest({', '.join(f'%b::{_type(name)}[]' for name in COLUMNS)})"
    f" ON CONFLICT (key) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS[1:])}"
    " WHERE calls.ended IS NULL"
)

_SENT: Final = """
SELECT backend, endpoint, tenant, at, sum(calls)::int8, sum(open)::int8, sum(input)::int8, sum(cached)::int8,
       sum(output)::int8, sum(held_input)::int8, sum(held_output)::int8
FROM (
    SELECT backend, endpoint, tenant, floor(sent / %(slot)s::float8) * %(slot)s::float8 AS at, 1 + retried AS calls,
           (ended IS NULL)::int AS open,
           CASE WHEN input IS NULL THEN held_input ELSE input + coalesce(cached, 0) + coalesce(cache_write, 0) END
               AS input,
           coalesce(cached, 0) AS cached, CASE WHEN ended IS NULL THEN held_output ELSE 0 END AS output,
           (1 + retried) * held_input AS held_input, (1 + retried) * held_output AS held_output
    FROM calls WHERE sent > 0 AND sent >= %(since)s
    UNION ALL
    SELECT backend, endpoint, tenant, floor(ended / %(slot)s::float8) * %(slot)s::float8, 0, 0, 0, 0,
           coalesce(output, held_output), 0, 0
    FROM calls WHERE ended >= %(since)s AND sent > 0
) AS both_ends
GROUP BY backend, endpoint, tenant, at ORDER BY backend, endpoint, tenant, at
"""


_WENT: Final = """
SELECT tenant, priority, job, run = %(run)s AND run <> '' AS own, count(*)::int8 AS calls,
       sum(CASE WHEN input IS NULL THEN held_input ELSE input + coalesce(cached, 0) + coalesce(cache_write, 0) END
           + coalesce(output, held_output))::int8
FROM calls WHERE sent > 0 AND sent >= %(since)s AND sent < %(until)s AND backend = %(backend)s
GROUP BY tenant, priority, job, own ORDER BY calls DESC, tenant, priority, job, own
"""


def make_ledger_tables(connection: Any) -> None:
    """Makes the ledger's tables where they are not there yet; inside of whatever transaction there is."""
    (there,) = connection.execute("SELECT to_regclass('calls') IS NOT NULL").fetchone()
    if not there:
        connection.execute(_TABLES)
        return
    # made by a release before calls said what they waited for, perhaps
    connection.execute("ALTER TABLE calls ADD COLUMN IF NOT EXISTS waits text COLLATE \"C\" NOT NULL DEFAULT ''")


def prune_calls(connection: Any, before: float) -> int:
    """Removes calls that ended before a time; what they came to stays. How many there were."""
    return int(connection.execute("DELETE FROM calls WHERE ended < %s", [before]).rowcount)


class PostgresLedger(DatabaseLedger):
    """The ledger. The store makes its tables with `make_ledger_tables`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _keep)

    async def end_open(self, at: float) -> int:
        def end(connection: Any) -> int:
            changed = connection.execute("UPDATE calls SET ended = %s, outcome = %s WHERE ended IS NULL", [at, LOST])
            return int(changed.rowcount)

        return await self._database.submit(end)

    async def spent(self, since: str = "") -> list[SpentRow]:
        fields = SpentRow.__struct_fields__
        query = f"SELECT {', '.join(fields)} FROM spent WHERE day >= %(since)s ORDER BY tenant, day"
        rows = await self._all(query, {"since": since})
        return [SpentRow(**dict(zip(fields, row, strict=True))) for row in rows]

    async def sent(self, since: float, slot: float) -> list[SentRow]:
        rows = await self._all(_SENT, {"since": since, "slot": slot})
        return [SentRow(**dict(zip(SentRow.__struct_fields__, row, strict=True))) for row in rows]

    async def calls(
        self, *, run: str = "", key: str = "", tenant: str = "", since: float = 0.0, size: int = PAGE
    ) -> list[CallRow]:
        wanted = {name: value for name, value in (("key", key), ("run", run), ("tenant", tenant)) if value}
        where = " AND ".join(("arrived >= %(since)s", *(f"{name} = %({name})s" for name in wanted)))
        query = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE {where} ORDER BY arrived, key LIMIT %(size)s"
        rows = await self._all(query, {"since": since, "size": size, **wanted})
        return [CallRow(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    async def went(self, backend: str, since: float, until: float, *, run: str = "") -> list[WentRow]:
        rows = await self._all(_WENT, {"backend": backend, "since": since, "until": until, "run": run})
        return [went_row(row) for row in rows]

    async def slowest(self, since: float, *, tenant: str = "", job: str = "", size: int = 20) -> list[CallRow]:
        wanted = {name: value for name, value in (("tenant", tenant), ("job", job)) if value}
        where = " AND ".join(("arrived >= %(since)s", *(f"{name} = %({name})s" for name in wanted)))
        query = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE {where} ORDER BY waited DESC, key LIMIT %(size)s"
        rows = await self._all(query, {"since": since, "size": size, **wanted})
        return [CallRow(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    async def _all(self, query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await self._database.query(
            lambda connection: connection.execute(query, values).fetchall()
        )
        return rows


def _keep(connection: Any, rows: Sequence[CallRow]) -> None:
    if rows:
        connection.execute(_UPSERT, [list(column) for column in zip(*map(fit_to_keep, rows), strict=True)])
