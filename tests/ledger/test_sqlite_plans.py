"""What SQLite looks at to answer a question about a span of time."""

from collections.abc import Callable

from orchestrator.store.sqlite_ledger import SqliteLedger
from tests.ledger.ledgers import NOON, DirectDatabase, ended_row

CALLS = 3_000
EVERY = 100
"""Steps of SQLite's machine between two looks."""


async def steps(database: DirectDatabase, ask: Callable[[], object]) -> int:
    """About how many steps of its machine SQLite takes for a question, by the hundred."""
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        return 0

    database.connection.set_progress_handler(look, EVERY)
    await ask()  # type: ignore[misc]
    database.connection.set_progress_handler(None, 0)
    return looks * EVERY


async def test_a_span_late_in_a_long_ledger_costs_what_it_holds() -> None:
    """What went within ten seconds, and what was sent in the last ten, take no look at the calls before those."""
    database = DirectDatabase()
    ledger = SqliteLedger(database)
    ledger.write([ended_row(f"c{number}", float(number)) for number in range(CALLS)])
    await ledger.flush()
    end = NOON + CALLS
    assert [row.calls for row in await ledger.went("main", end - 10, end)] == [10]
    assert await steps(database, lambda: ledger.went("main", end - 10, end)) < CALLS
    assert await steps(database, lambda: ledger.sent(end - 10, 1.0)) < CALLS
    database.connection.close()
