"""Runs looked at one by one: open ones as whoever drives them knows them, the others as the store does."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import NoReturn

import trio

from agents.errors import Draining
from agents.runtime import UnknownRun
from orchestrator.runs.ended_sessions import EndedSessions
from orchestrator.runs.head import view_of
from orchestrator.runs.live_runs import SHUTTING_DOWN
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.output import Listener
from orchestrator.runs.outside import run_over
from orchestrator.runs.reading import ended_detail, read_run
from orchestrator.runs.watching import watch_run
from orchestrator.store.base import RunRow, Store
from orchestrator.views.runs import RunDetail, RunView


class SeenRuns:
    """The runs of one service. `kept` are sessions that may be let go of while nobody looks. Raises `UnknownRun`."""

    def __init__(self, store: Store, books: OpenRuns, kept: EndedSessions) -> None:
        self._store = store
        self._records = books.records
        self._kept = kept

    async def view(self, run: str) -> RunView:
        """The run in a list."""
        record = self._records.get(run)
        if record is None:
            return view_of(await self._row(run))
        await trio.lowlevel.checkpoint()
        return record.view()

    async def detail(self, run: str) -> RunDetail:
        """The run, whole."""
        record = self._records.get(run)
        if record is None:
            row = await self._row(run)
            return ended_detail(row, await read_run(self._store, row))
        await trio.lowlevel.checkpoint()
        return record.whole()

    async def at_its_end(self, run: str) -> RunDetail:
        """The run, whole, when it has ended. Raises `Draining` where this process ends before it."""
        record = self._records.get(run)
        if record is None:
            return await self.detail(run)
        await record.wait()
        if record.detail is None:
            raise Draining(f"{SHUTTING_DOWN}; run {run} stays open and goes on with the next one")
        return record.detail

    async def over(self, run: str) -> NoReturn:
        """Says of a run that is not open why nothing can be told to it. Raises `RunOver`."""
        await self._row(run)
        raise run_over(run)

    async def events(
        self, run: str, after: int, *, follow: bool, output: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; see `orchestrator.runs.watching`."""
        row = await self._row(run)
        listening = self._listening(run) if output and follow else nullcontext()
        with self._kept.kept(row.session), listening as listener:
            watching = watch_run(
                self._store, row, lambda: self._records.get(run), after, follow=follow, listener=listener
            )
            async with aclosing(watching) as events:
                async for event in events:
                    yield event

    def _listening(self, run: str) -> AbstractContextManager[Listener | None]:
        record = self._records.get(run)
        return nullcontext() if record is None else record.output.listening()

    async def _row(self, run: str) -> RunRow:
        """What the index says of the run."""
        row = await self._store.run(run)
        if row is None:
            raise UnknownRun(f"there is no run {run}")
        return row
