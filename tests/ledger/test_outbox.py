"""Rows on their way to a store that is slow, full or broken."""

import pytest

from orchestrator.store import ledger_rows
from orchestrator.store.errors import StoreClosed, StoreFull
from orchestrator.store.sqlite_ledger import SqliteLedger
from tests.ledger.ledgers import NOON, DirectDatabase, ended_row, sent_row


async def test_rows_of_one_group_are_written_together_and_once() -> None:
    """What is handed over before the writer begins goes with it; a call that has ended by then is one row."""
    database = DirectDatabase()
    ledger = SqliteLedger(database)
    for n in range(100):
        ledger.write([sent_row(f"c{n}", n)])
        ledger.write([ended_row(f"c{n}", n)])
    await ledger.flush()
    assert database.groups == 1
    assert database.connection.total_changes == 200, "a row of calls and one of sums for each"
    ledger.write([sent_row("later", 100)])
    await ledger.flush()
    assert database.groups == 2


async def test_a_full_disk_loses_nothing_once_there_is_room() -> None:
    """Rows that met a full disk wait, in order, and nothing is lost; whoever flushes is told."""
    database = DirectDatabase()
    ledger = SqliteLedger(database)
    database.fail = StoreFull("no room")
    ledger.write([sent_row("a"), sent_row("b", 1)])
    with pytest.raises(StoreFull):
        await ledger.flush()
    ledger.write([ended_row("a")])
    with pytest.raises(StoreFull):
        await ledger.flush()
    database.fail = None
    await ledger.flush()
    assert [(row.key, row.outcome) for row in await ledger.calls()] == [("a", "ok"), ("b", "")]
    assert ledger.lost == 0


async def test_what_cannot_be_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is gone, or too far behind, loses rows and says how many."""
    database = DirectDatabase()
    ledger = SqliteLedger(database)
    database.fail = StoreClosed("it was closed")
    ledger.write([sent_row("a"), sent_row("b")])
    with pytest.raises(StoreClosed):
        await ledger.flush()
    assert ledger.lost == 2
    database.fail = None
    monkeypatch.setattr(ledger_rows, "MOST_WAITING", 3)
    for n in range(5):
        ledger.write([sent_row(f"c{n}", n)])
    await ledger.flush()
    assert ledger.lost == 4
    assert [row.arrived - NOON for row in await ledger.calls()] == [0, 1, 2]


async def test_work_that_is_repeated_comes_out_the_same() -> None:
    """A writer that runs a batch again, after a lost connection, writes what it wrote before."""
    database = DirectDatabase()
    posted = []
    database.post = lambda work, failed=None: posted.append(work)  # type: ignore[assignment,misc]
    ledger = SqliteLedger(database)
    ledger.write([sent_row("a"), ended_row("b")])
    for _ in range(2):
        posted[0](database.connection)
    ledger.write([sent_row("c")])
    assert len(posted) == 2, "what comes after the writer has begun goes into another batch"
    assert {row.key for row in await ledger.calls()} == {"a", "b"}
    (spent,) = await ledger.spent()
    assert (spent.calls, spent.unknown_tokens) == (1, 100)
