"""The daemon's ledger as a trace."""

from pathlib import Path

import msgspec
import pytest

from agents.port import Priority
from bench.traces.base import TraceCall, TraceError
from bench.traces.detect import read_trace
from bench.traces.ledger import FILE, read_ledger
from orchestrator.store.ledger_port import CallRow
from orchestrator.store.sqlite import open_sqlite

ROWS = [
    CallRow(
        key="r1/1/1",
        tenant="acme",
        job="j",
        run="r1",
        priority=2,
        arrived=1_000_000.0,
        sent=1_000_004.0,
        ended=1_000_010.0,
        outcome="ok",
        input=70,
        cached=30,
        output=20,
        held_input=110,
        held_output=64,
    ),
    CallRow(key="open", tenant="acme", arrived=1_000_001.0, sent=1_000_001.0),
    CallRow(key="never sent", tenant="acme", arrived=1_000_002.0, ended=1_000_003.0, outcome="queue_timeout"),
    CallRow(
        key="silent",
        tenant="other",
        arrived=1_000_005.0,
        sent=1_000_005.0,
        ended=1_000_006.0,
        outcome="ok",
        held_input=50,
        held_output=40,
    ),
]
CALLS = (
    TraceCall(
        at=0.0,
        input=100,
        output=20,
        tenant="acme",
        job="j",
        run="r1",
        cached=30,
        priority=Priority.BATCH,
        max_tokens=64,
        seconds=6.0,
    ),
    TraceCall(at=5.0, input=50, output=40, tenant="other", max_tokens=40, seconds=1.0),
)


async def test_a_store_is_read_while_it_is_in_use(tmp_path: Path) -> None:
    """The folder and the file give the answered calls, with their sizes, flows and durations, and a part by time."""
    async with open_sqlite(tmp_path / FILE) as store:
        store.ledger.write(ROWS)
        await store.ledger.flush()
        assert read_trace(tmp_path) == read_trace(tmp_path / FILE)
        trace = read_trace(tmp_path)
        assert [row.key for row in read_ledger(tmp_path, since=1_000_001.0, until=1_000_005.0)] == [
            "open",
            "never sent",
        ]
    assert trace.format == "ledger"
    assert trace.calls == CALLS


def test_rows_as_lines_are_read_the_same(tmp_path: Path) -> None:
    """JSON lines of the ledger's rows, in any order, are the same trace."""
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(row) for row in reversed(ROWS)))
    assert read_trace(path).calls == CALLS


def test_what_is_no_ledger_says_so(tmp_path: Path) -> None:
    """An empty folder, a database without calls and a bad line are refused by name."""
    with pytest.raises(TraceError, match="is not there"):
        read_trace(tmp_path)
    (tmp_path / FILE).write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(TraceError, match="has no ledger of calls that can be read"):
        read_trace(tmp_path)
    lines = tmp_path / "calls.jsonl"
    lines.write_bytes(msgspec.json.encode(ROWS[0]) + b'\n{"key": 3}\n')
    with pytest.raises(TraceError, match="line 2: is not a row of the ledger"):
        read_trace(lines)
