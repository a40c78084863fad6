"""Items that were under way when their job had enough: their runs are cancelled, and each leaves its line."""

from collections.abc import Awaitable, Callable

import trio

from agents.budget import Amounts
from orchestrator.jobs.inputs import Unreadable
from orchestrator.jobs.item_lines import item_line, unknown_of
from orchestrator.jobs.job import WINDOW
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.tail import InputTail
from orchestrator.store.base import Store

Write = Callable[[JobLine, InputTail, Amounts], Awaitable[None]]


async def drain(
    record: JobRecord,
    fd: int,
    spool: InputSpool,
    table: ResultTable,
    write: Write,
    *,
    runs: RunsToEnd,
    store: Store,
    limiter: trio.CapacityLimiter,
) -> None:
    """Cancels the run of every item that has one and no line, and has `write` write it, shielded.

    A run that had ended, though nobody had written so, leaves the line of its end. So it makes no difference whether
    the daemon that closed the job still lives. Raises `OSError`, and as `run_to_end` does.
    """
    most = WINDOW * record.workers if record.request.ordered else record.workers
    wanted = frozenset(table.begun(spool.durable.lines, most))
    tail = InputTail(fd, spool, lambda ordinal: ordinal not in wanted, limiter=limiter)
    for _ in wanted:
        item = await anext(tail)
        run = record.run(tail.ordinal(item.ordinal))
        row = await store.run(run)
        if row is None or isinstance(item, Unreadable):
            continue
        if row.open:
            await runs.cancel(run)
        result = await runs.run_to_end(record.asking(run, run))
        with trio.CancelScope(shield=True):
            await write(item_line(item, result), tail, unknown_of(result))
