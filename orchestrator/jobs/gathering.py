"""A live job asks after each item, and at its deadline, whether it has enough."""

import math
from collections.abc import Awaitable, Callable

import msgspec
import trio

from orchestrator.jobs.ending import Ending
from orchestrator.jobs.gather import Close, Counts, judge, settle
from orchestrator.jobs.record import JobRecord
from orchestrator.jobs.rounds import Rounds
from orchestrator.jobs.spool import InputSpool
from orchestrator.jobs.table import ResultTable


class Gathering:
    """One attempt's. `closing` is why the job closes, once it does; `close` is told, once, and keeps it.

    `rounds` are a debate's, where the items are that.
    """

    def __init__(
        self,
        record: JobRecord,
        spool: InputSpool,
        table: ResultTable,
        wall: Callable[[], float],
        close: Callable[[Close], Awaitable[None]],
    ) -> None:
        self.closing: Close | None = None
        self.since = record.since
        self.rounds: Rounds | None = None
        self._gather = record.request.gather
        self._spool = spool
        self._table = table
        self._wall = wall
        self._close = close

    async def ask(self) -> None:
        """Closes the job if it is time. For a caller that is shielded."""
        if self.closing is None:
            self.closing = judge(self._gather, self._counts(self._table.failed_again))
            if self.closing is not None:
                await self._close(self.closing)

    async def watch(self) -> None:
        """Asks when there are other inputs, and at the deadline, until the job closes."""
        while self.closing is None:
            version = self._spool.changed.version
            with trio.CancelScope(shield=True):
                await self.ask()
            with trio.move_on_after(self._left()):
                await self._spool.changed.beyond(version)

    def ending(self, stopping: Ending | None, *, whole: bool, left: int, problem: str) -> Ending:
        """How the attempt ends that was stopped so, if it was, with `left` items taken away; `problem` is why it could
        not go on, and `whole` says that nothing more would have come.
        """
        if stopping is not None and whole and not left and stopping.phase in ("interrupted", "cancelled"):
            stopping, problem = None, ""  # it was whole before that took effect
        if stopping is not None:
            return msgspec.structs.replace(stopping, cancelled=stopping.cancelled + left)
        if self.closing is None and problem:  # `fail_fast`, results or inputs that cannot be used
            return Ending("failed", problem, left)
        return msgspec.structs.replace(self._at_the_end(), cancelled=left)

    def _at_the_end(self) -> Ending:
        """How the attempt ends that has closed, or all of whose items have ended."""
        table = self._table
        left_out = self._spool.durable.lines - table.done - table.failed
        if self.closing is None and table.only_failed and left_out:
            return Ending("stopped", f"only what had failed was run again; {left_out:,} inputs were left out")
        end = self.closing or settle(self._gather, self._counts(table.failed))
        return Ending(end.phase, end.message, sum_up=self.closing is None or end.phase == "done")

    def _counts(self, failed: int) -> Counts:
        return Counts(
            done=self._table.done,
            failed=failed,
            total=self._spool.durable.lines if self._spool.complete else None,
            seconds=self._wall() - self.since,
            error=self._table.an_error,
            debate=None if self.rounds is None else self.rounds.debate,
        )

    def _left(self) -> float:
        seconds = self._gather.seconds
        return math.inf if seconds is None else max(0.0, seconds - (self._wall() - self.since))

    def __repr__(self) -> str:
        return f"<Gathering {self._gather.policy}: {self.closing or 'open'}>"
