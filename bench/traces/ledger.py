"""The daemon's own ledger of calls, from its store or from rows as JSON lines: what was really asked of a provider.

A call comes when its owner first saw it, and took from its last attempt's sending to its end. Where the provider said
nothing of its usage, the tokens are the upper bounds that limits counted. A call that is still open, and one that never
went out, has no answer to be played: it is left out.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from agents.port import Priority
from bench.traces.base import TraceCall, TraceError
from bench.traces.rows import text_of
from orchestrator.store.ledger_port import CallRow
from orchestrator.store.ledger_rows import COLUMNS, input_counted, output_counted
from orchestrator.store.sqlite_schema import connect

LeftOut = Literal["open", "never sent", "failed"]

FILE: Final = "headrace.db"
_SQLITE: Final = b"SQLite format 3\0"
_BUSY_SECONDS: Final = 10.0


def calls_of(rows: Iterable[CallRow]) -> Iterator[TraceCall]:
    """The calls that were answered, timed from the first row's arrival. `rows` are in the order of their arrival."""
    first: float | None = None
    for row in rows:
        first = row.arrived if first is None else first
        if why_left_out(row) is None:
            yield call_of(row, first)


def why_left_out(row: CallRow) -> LeftOut | None:
    """Why a call cannot be played; None where it can."""
    if row.ended is None:
        return "open"
    if row.sent <= 0.0:
        return "never sent"
    return None if row.outcome == "ok" or row.output else "failed"


def call_of(row: CallRow, first: float) -> TraceCall:
    """An answered call, timed from `first`, in seconds since the epoch."""
    assert row.ended is not None, "open calls are left out"
    return TraceCall(
        at=max(0.0, row.arrived - first),
        input=input_counted(row),
        output=max(1, output_counted(row)),
        tenant=row.tenant,
        job=row.job,
        run=row.run,
        cached=row.cached or 0,
        priority=Priority(row.priority) if 0 <= row.priority < len(Priority) else Priority.STANDARD,
        max_tokens=row.held_output or None,
        seconds=max(0.0, row.ended - row.sent),
    )


def read_rows(path: Path, *, since: float = 0.0, until: float = float("inf")) -> list[CallRow]:
    """The rows of a store or of a file of JSON lines that arrived in [since, until), in order. Raises `TraceError`."""
    if path.is_dir() or _is_store(path):
        return read_ledger(path, since=since, until=until)
    return [row for row in read_ledger_lines(path) if since <= row.arrived < until]


def _is_store(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror or error}") from None


def read_ledger(path: Path, *, since: float = 0.0, until: float = float("inf")) -> list[CallRow]:
    """The rows of a store (a file of SQLite, or a daemon's folder with one) that arrived in [since, until), in order.

    A daemon may be running. Times are seconds since the epoch. Raises `TraceError`.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise TraceError(file, None, "is not there; a daemon's folder has it, or name the file itself")
    query = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE arrived >= ? AND arrived < ? ORDER BY arrived, key"
    try:
        connection = connect(file, busy_seconds=_BUSY_SECONDS, read_only=True)
        try:
            found = connection.execute(query, [since, until]).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TraceError(file, None, f"has no ledger of calls that can be read: {error}") from None
    return [CallRow(**dict(zip(COLUMNS, row, strict=True))) for row in found]


def read_ledger_lines(path: Path) -> list[CallRow]:
    """The rows of a file of JSON lines, one `CallRow` each, in the order of their arrival. Raises `TraceError`."""
    decoder = msgspec.json.Decoder(CallRow)
    found = []
    with text_of(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found.append(decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise TraceError(path, number, f"is not a row of the ledger: {error}") from None
    return sorted(found, key=lambda row: (row.arrived, row.key))
