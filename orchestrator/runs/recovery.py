"""What a store knows of runs that an earlier process left open: read, before anything is driven.

Model calls of agents whose end nobody knows are written into the ledger as lost, with all that was reserved for them;
so budgets and limits that are made from the ledger know of them. `LOOKED_AT` runs are read at the same time.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import trio
from msgspec.structs import replace

from agents.errors import HeadraceError
from agents.port import Flow, Priority
from agents.snapshot import RunSnapshot
from orchestrator.runs.head import Head
from orchestrator.runs.priorities import PRIORITIES
from orchestrator.runs.reading import read_session
from orchestrator.runs.record import RunRecord, Terms
from orchestrator.store.base import PAGE, RunQuery, RunRow, Store
from orchestrator.store.errors import StoreError
from orchestrator.store.ledger_port import CallRow

LOOKED_AT: Final = 128


async def open_runs(store: Store, wall: Callable[[], float]) -> list[RunRecord]:
    """The open runs of the store, the oldest first, each with where it stands or why that cannot be said.

    Raises `StoreError` where the store fails.
    """
    found: list[RunRecord] = []
    failure: StoreError | None = None
    send, receive = trio.open_memory_channel[RunRecord](0)
    async with trio.open_nursery() as nursery, receive:
        for _ in range(LOOKED_AT):
            nursery.start_soon(_look, store, receive.clone(), wall)
        async with send, aclosing(_rows(store)) as rows:
            try:
                async for row in rows:
                    record = recorded(row)
                    found.append(record)
                    await send.send(record)
            except StoreError as error:
                failure = error
    if failure is not None:
        raise failure
    await store.ledger.flush()
    found.reverse()
    return found


async def _rows(store: Store) -> AsyncGenerator[RunRow, None]:
    before = 0
    while True:
        rows = (await store.runs(RunQuery(open=True, before=before, size=PAGE))).rows
        for row in rows:
            yield row
        if len(rows) < PAGE:
            return
        before = rows[-1].number


def recorded(row: RunRow) -> RunRecord:
    """The record of an open run that nobody drives."""
    head = Head.stored(row)
    flow = Flow(row.tenant, row.job, row.run)
    return RunRecord(flow, row.session, PRIORITIES[head.view.priority], Terms(), counted=False, head=head)


async def _look(store: Store, records: "trio.MemoryReceiveChannel[RunRecord]", wall: Callable[[], float]) -> None:
    async with records:
        async for record in records:
            try:
                record.stands(await read_session(store, record.session))
            except HeadraceError as error:
                record.problem = error.message
                continue
            run = record.parked
            if run is not None and run.open_request is not None:
                store.ledger.write([await _lost(store, run, record.priority, wall())])


async def _lost(store: Store, run: RunSnapshot, priority: Priority, now: float) -> CallRow:
    """The row of the call that has no end: what was written when it was sent, where something was."""
    request, created = run.open_request, run.created
    assert request is not None
    known = await store.ledger.calls(key=request.key, size=1)
    row = (
        known[0]
        if known
        else CallRow(
            key=request.key,
            tenant=created.tenant,
            job=created.job,
            run=created.run,
            priority=int(priority),
            model=created.model,
            arrived=request.at,
        )
    )
    if row.ended is not None:
        return row
    return replace(
        row,
        ended=now,
        outcome="lost",
        unknown_tokens=request.reserved_tokens,
        unknown_micro_dollars=request.reserved_micro_dollars,
    )
