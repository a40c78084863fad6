"""Items that a job had no need of any more when it closed: each leaves its line, whether it was under way or never
begun, so that the table of results has a row for every input that was there.

Runs under way are cancelled. One that had ended, though nobody had written so, leaves the line of its end. So it makes
no difference whether the daemon that closed the job still lives.
"""

from collections.abc import Callable
from typing import Final

import msgspec
import trio

from orchestrator.jobs.errors import JobStorageError
from orchestrator.jobs.inputs import Item, Unreadable
from orchestrator.jobs.item_lines import item_line, line_of, never_begun, unknown_of
from orchestrator.jobs.job import WINDOW
from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import JobRecord
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable
from orchestrator.jobs.tail import InputTail
from orchestrator.jobs.writing import Ended, LineWriter
from orchestrator.store.base import Store

TOGETHER: Final = 256
"""Lines of items never begun that are kept at once: there may be a million of them."""


class Losers:
    """Those of one attempt."""

    def __init__(
        self,
        record: JobRecord,
        spool: InputSpool,
        table: ResultTable,
        runs: RunsToEnd,
        store: Store,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._record = record
        self._spool = spool
        self._table = table
        self._runs = runs
        self._store = store
        self._limiter = limiter

    def __repr__(self) -> str:
        return f"<Losers of {self._record.job}>"

    async def drain(self, fd: int, writer: LineWriter, *, until: Callable[[], bool]) -> None:
        """Writes a line for each input there is that has none in this attempt; `until` says that it is to leave off.

        Inputs that come after it has begun are not for it. Raises `JobStorageError`, `OutputError`, and what
        `run_to_end` does.
        """
        record, inputs = self._record, self._spool.durable.lines
        most = WINDOW * record.workers if record.request.ordered else record.workers
        begun = frozenset(self._table.begun(inputs, most))
        tail = InputTail(fd, self._spool, self._table.is_over, limiter=self._limiter)
        waiting: list[Ended] = []
        for _ in range(self._table.open(inputs)):
            if until():
                return
            item = await anext(tail, None)
            if item is None:
                raise JobStorageError(tail.problem)
            ordinal, digest = tail.ordinal(item.ordinal), tail.digest(item.ordinal)
            tail.forget(item.ordinal)
            ended = await self._taken_away(item, ordinal, digest) if ordinal in begun else None
            waiting.append(ended or Ended(line_of(never_begun(ordinal, item.origin), 0), digest))
            if ended is not None or len(waiting) == TOGETHER:
                await _write(writer, waiting)
                waiting = []
        await _write(writer, waiting)

    async def _taken_away(self, item: Item | Unreadable, ordinal: int, digest: str) -> Ended | None:
        """The end of an item's run; None where there is no run."""
        run = self._record.run(ordinal)
        row = await self._store.run(run)
        if row is None or isinstance(item, Unreadable):
            return None
        if row.open:
            await self._runs.cancel(run)
        result = await self._runs.run_to_end(self._record.asking(run, run))
        line = msgspec.structs.replace(item_line(item, result), ordinal=ordinal)
        return Ended(line, digest, unknown_of(result))


async def _write(writer: LineWriter, ended: list[Ended]) -> None:
    with trio.CancelScope(shield=True):
        if ended:
            await writer.write(*ended)
