"""Events a second that are on disk when their append returns: many sessions at once, against one sync for each.

The baseline is plain `sqlite3` in this thread: the same log, WAL, `synchronous = FULL`, one event in one transaction.
So there an append is an event is a sync. Sessions in the store append batch after batch, the next one when the last is
durable; one session alone shows what the store itself costs. Both sides keep the same records in tables alike, below
the same folder, in turns.

Counted are events and appends. Agents as they are in `bench.durable_path` append one event at a time, and where every
batch is one event both are the same; where batches have 1, 2 and 3 events in turn, one sync would have served a whole
batch in either case, so there the ratio of the appends is the one that grouping explains.

Time is the clock's: what is waited for is the disk.
"""

import gc
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from agents.events import ModelReplied, ModelRequested, ToolFinished, ToolStarted, encode
from agents.messages import Message, ModelReply, ToolCall, Usage
from orchestrator.garbage import tune_collector
from orchestrator.store.base import Batch
from orchestrator.store.sqlite import SqliteStore, open_sqlite

APPENDERS: Final = (1, 64, 1_000, 10_000)
APPENDS: Final = 20_000
"""Appends of one repeat, over all appenders; at least one of each, and far fewer where one appends alone."""

ALONE: Final = 1_000
"""Appends of one appender, and events of the baseline, in one repeat."""

BATCHES: Final = ((1,), (1, 2, 3))
"""How many events the batches of a session have, in turn."""


class AppendsResult(Struct, frozen=True):
    """One number of appenders, whose batches have so many events in turn.

    Medians of the repeats; ratios are to the baseline's events just before.
    """

    appenders: int
    batches: tuple[int, ...]
    events_per_second: float
    appends_per_second: float
    events_ratio: float
    appends_ratio: float


class AppendsReport(Struct, frozen=True):
    """`plain_per_second` is the baseline: events, appends and syncs alike. `record_bytes` is an event's mean size."""

    plain_per_second: float
    record_bytes: int
    results: list[AppendsResult]


def measure_appends(
    appenders: Sequence[int] = APPENDERS,
    *,
    folder: Path,
    appends: int = APPENDS,
    alone: int = ALONE,
    repeats: int = 5,
    on_progress: Callable[[str], None] = lambda line: None,
) -> AppendsReport:
    """Every number of appenders beside the baseline. Files go below `folder` and are removed. Blocks; bounded."""
    thresholds = gc.get_threshold()
    cases: dict[_Case, list[_Pair]] = {(number, sizes): [] for number in appenders for sizes in BATCHES}
    try:
        for repeat in range(repeats):
            told: list[str] = []
            for (number, sizes), pairs in cases.items():
                each = max(1, appends // number) if number > 1 else alone
                # A disk has moods, so each case is held against a baseline taken just before it.
                pairs.append((_plain(folder, alone), *_stored(folder, number, sizes, each)))
                told.append(
                    f"{number:,} x {'-'.join(map(str, sizes))}: {pairs[-1][1]:,.0f} (plain {pairs[-1][0]:,.0f})"
                )
            on_progress(f"events/s, repeat {repeat + 1}/{repeats}: {', '.join(told)}")
    finally:
        gc.set_threshold(*thresholds)
    return AppendsReport(
        plain_per_second=statistics.median(plain for pairs in cases.values() for plain, _, _ in pairs),
        record_bytes=sum(map(len, RECORDS)) // len(RECORDS),
        results=[_result(case, pairs) for case, pairs in cases.items()],
    )


_Case = tuple[int, tuple[int, ...]]
_Pair = tuple[float, float, float]
"""Events a second of the baseline, then events and appends a second through the store."""


def _result(case: _Case, pairs: Sequence[_Pair]) -> AppendsResult:
    return AppendsResult(
        appenders=case[0],
        batches=case[1],
        events_per_second=statistics.median(events for _, events, _ in pairs),
        appends_per_second=statistics.median(appends for _, _, appends in pairs),
        events_ratio=statistics.median(events / plain for plain, events, _ in pairs),
        appends_ratio=statistics.median(appends / plain for plain, _, appends in pairs),
    )


def _records() -> tuple[bytes, ...]:
    """The events of one step of an agent, as a run writes them."""
    call = ToolCall("call-1", "look", '{"place":"shelf 1"}')
    reply = ModelReply(
        Message("assistant", "I look at the next shelf.", tool_calls=(call,)), "tool_calls", Usage(input=200, output=20)
    )
    run, at = "run-1234", 1_790_000_000.123456
    key = f"{run}/1/0"
    return (
        encode(ModelRequested(run=run, at=at, step=1, attempt=1, reserved_tokens=512, reserved_micro_dollars=300)),
        encode(ModelReplied(run=run, at=at, step=1, attempt=1, reply=reply, micro_dollars=70)),
        encode(ToolStarted(run=run, at=at, step=1, index=0, call=call.id, name=call.name, key=key)),
        encode(
            ToolFinished(
                run=run, at=at, step=1, index=0, call=call.id, name=call.name, outcome="ok", content="None of them."
            )
        ),
    )


RECORDS: Final = _records()


def _plain(folder: Path, events: int) -> float:
    """Events a second, each in a transaction of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=folder) as own,
        closing(sqlite3.connect(Path(own) / "plain.sqlite", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE events (session INTEGER, number INTEGER, batch TEXT, at REAL, data BLOB)")
        connection.execute("CREATE UNIQUE INDEX events_in_order ON events (session, number)")
        began = time.perf_counter()
        for number in range(1, events + 1):
            record = RECORDS[number % len(RECORDS)]
            connection.execute("INSERT INTO events VALUES (1, ?, ?, ?, ?)", (number, str(number), began, record))
        return events / (time.perf_counter() - began)


def _stored(folder: Path, appenders: int, sizes: tuple[int, ...], each: int) -> tuple[float, float]:
    """Events and appends a second through the store."""
    gc.collect()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=folder) as own:
        return trio.run(_append_all, Path(own) / "store.sqlite", appenders, sizes, each)


async def _append_all(path: Path, appenders: int, sizes: tuple[int, ...], each: int) -> tuple[float, float]:
    async with open_sqlite(path) as store:
        await store.beat("bench", 3600.0)
        async with trio.open_nursery() as nursery:
            for number in range(appenders):
                nursery.start_soon(_begin, store, number)
        tune_collector()
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for number in range(appenders):
                nursery.start_soon(_append, store, number, _turns(number, sizes, each))
        seconds = time.perf_counter() - began
        gc.unfreeze()
    events = sum(sum(_turns(number, sizes, each)) for number in range(appenders))
    return events / seconds, appenders * each / seconds


async def _begin(store: SqliteStore, number: int) -> None:
    batch = Batch(session=f"session-{number}", id="0", after=0, records=RECORDS[:1])
    await store.take(batch.session, "bench", batch=batch)


async def _append(store: SqliteStore, number: int, turns: Sequence[int]) -> None:
    session, last = f"session-{number}", 1
    for turn, size in enumerate(turns, 1):
        batch = Batch(session=session, id=f"bench-{turn}", after=last, records=RECORDS[:size])
        last = await store.append(batch, 1)


def _turns(number: int, sizes: tuple[int, ...], each: int) -> list[int]:
    """How many events each batch of an appender has."""
    return [sizes[(number + turn) % len(sizes)] for turn in range(each)]
