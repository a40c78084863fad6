"""Result lines on their way: first into the job's log, then, in its order, into the table and the file."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from agents.amounts import NOTHING, Amounts
from orchestrator.jobs.events import ItemFinished, JobEvent
from orchestrator.jobs.outputs import OutputError
from orchestrator.jobs.projection import ResultFile
from orchestrator.jobs.record import JobLine
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.table import ResultTable
from orchestrator.store.errors import StoreError


class Append(Protocol):
    """Appends to the job's log, and calls `then` in its order. Raises `StoreError`."""

    async def __call__(self, *events: JobEvent, then: Callable[[], None] = ...) -> None: ...


class Ended(NamedTuple):
    """An item that came to its end: its line, its input's digest, what its run may have used besides."""

    line: JobLine
    digest: str = ""
    unknown: Amounts = NOTHING


class LineWriter:
    """Writes the lines of one attempt into a results file. `written` counts them."""

    def __init__(
        self,
        file: ResultFile,
        table: ResultTable,
        results: ResultView,
        append: Append,
        *,
        attempt: int,
        wall: Callable[[], float],
        on_line: Callable[[JobLine], None] = lambda line: None,
    ) -> None:
        self.written = 0
        self._file = file
        self._attempt = attempt
        self._append = append
        self._table = table
        self._results = results
        self._wall = wall
        self._on_line = on_line

    def __repr__(self) -> str:
        return f"<LineWriter {self.written} written>"

    async def write(self, *ended: Ended, behind: tuple[JobEvent, ...] = ()) -> None:
        """Returns when they are kept, all together, with other events `behind` them. For a caller that is shielded.

        Raises `OutputError`.
        """
        now = self._wall()
        events: list[JobEvent] = []
        lines: list[tuple[Ended, bytes]] = []
        for one in ended:
            line = msgspec.structs.replace(one.line, attempt=self._attempt)
            data = line.line()
            raw = msgspec.Raw(data[:-1])
            events.append(ItemFinished(at=now, ordinal=line.ordinal, digest=one.digest, line=raw, unknown=one.unknown))
            lines.append((one._replace(line=line), data))
        try:
            await self._append(*events, *behind, then=partial(self._keep, lines))
        except StoreError as error:
            raise OutputError(error.message) from error

    def _keep(self, lines: list[tuple[Ended, bytes]]) -> None:
        for ended, data in lines:
            self.written += 1
            self._table.add(ended.line, ended.unknown)
            self._on_line(ended.line)
            self._file.append(data)
            self._results.size += len(data)
        self._results.changed.ring()
