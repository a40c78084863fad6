"""Explanations of calls and runs, put together from the ledger, the logs, and what owners hold now."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, Protocol

import msgspec

from agents.errors import HeadraceError
from agents.events import Event, decode
from orchestrator.explain.call import explain_call, waited_of, waits_of
from orchestrator.explain.run import spans_of
from orchestrator.explain.words import run_words
from orchestrator.store.errors import StoreError
from orchestrator.store.ledger_port import CallRow, Ledger
from orchestrator.views.explain import CallExplanation, RunExplanation, SlowCalls, WaitShare
from orchestrator.views.runs import RunView

LONGEST: Final = 3
"""Calls of a run that are explained one by one."""

Sees = Callable[[str], bool]
"""Whether whoever asks may know of a tenant."""


class UnknownCall(HeadraceError):
    """Nobody knows this call."""


class ReadsRuns(Protocol):
    """The part of the run service that is needed."""

    async def view(self, run: str) -> RunView: ...

    def events(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]: ...


class Explainer:
    """`waiting` are calls that owners hold and that were not sent, as rows: those of one run, or the one of a key.
    `weight` is a tenant's at a backend; `amounts` says how large a backend's limits are, in words by name. `wall` is in
    seconds since the epoch.
    """

    def __init__(
        self,
        ledger: Ledger,
        runs: ReadsRuns,
        *,
        waiting: Callable[[str], Sequence[CallRow]],
        weight: Callable[[str, str], float],
        amounts: Callable[[str], Mapping[str, str]],
        wall: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._runs = runs
        self._waiting = waiting
        self._weight = weight
        self._amounts = amounts
        self._wall = wall

    async def call(self, key: str, sees: Sees) -> CallExplanation:
        """One call by its key. Raises `UnknownCall`, also where its tenant is not seen, and `StoreError`."""
        rows = [row for row in self._waiting(key) if row.key == key] or await self._known(key=key)
        if not rows or not sees(rows[0].tenant):
            raise UnknownCall(f"there is no call {key}; the header x-headrace-call of its answer names it")
        return await self._explained(rows[0], sees)

    async def run(self, run: str, sees: Sees) -> RunExplanation:
        """One run. Raises `UnknownRun`, and `StoreError`."""
        view = await self._runs.view(run)
        now = self._wall()
        spans = spans_of([event async for event in self._events(run)], now)
        rows = {row.key: row for row in await self._known(run=run)}
        rows.update((row.key, row) for row in self._waiting(run))
        slow = sorted((row for row in rows.values() if waited_of(row) > 0), key=lambda row: (-waited_of(row), row.key))
        calls = [await self._explained(row, sees) for row in slow[:LONGEST]]
        queue = min(sum(waited_of(row) for row in rows.values()), spans.model)
        explained = RunExplanation(
            run=run,
            tenant=view.tenant,
            job=view.job,
            state=str(view.state),
            reason="" if view.reason is None else str(view.reason),
            seconds=spans.whole,
            queue=queue,
            model=spans.model - queue,
            tools=spans.tools,
            people=spans.people,
            other=spans.other,
            waits=_together(rows.values()),
            ahead=calls[0].ahead if calls else (),
            calls=tuple(calls),
            words=(),
            message=view.message,
            by_tool=_longest_first(spans.by_tool),
            running=spans.running,
        )
        backend = slow[0].backend if slow else ""
        words = run_words(explained, weights=self._weights(backend), amounts=self._amounts(backend))
        return msgspec.structs.replace(explained, words=words)

    async def slowest(self, seconds: float, *, tenant: str, job: str, size: int, sees: Sees) -> SlowCalls:
        """The calls of the last seconds that waited longest. Raises `StoreError`."""
        await self._flushed()
        rows = await self._ledger.slowest(self._wall() - seconds, tenant=tenant, job=job, size=size)
        return SlowCalls(seconds=seconds, calls=tuple([await self._explained(row, sees) for row in rows]))

    async def _explained(self, row: CallRow, sees: Sees) -> CallExplanation:
        went = []
        if waited_of(row) > 0:
            went = await self._ledger.went(row.backend, row.arrived, row.sent or self._wall(), run=row.run)
        return explain_call(
            row, went, weights=self._weights(row.backend), amounts=self._amounts(row.backend), sees=sees
        )

    def _weights(self, backend: str) -> Callable[[str], float]:
        return lambda tenant: self._weight(backend, tenant)

    async def _known(self, *, run: str = "", key: str = "") -> list[CallRow]:
        await self._flushed()
        return await self._ledger.calls(run=run, key=key)

    async def _flushed(self) -> None:
        with suppress(StoreError):  # what is there says something, too
            await self._ledger.flush()

    async def _events(self, run: str) -> AsyncGenerator[Event, None]:
        async with aclosing(self._runs.events(run, follow=False)) as events:
            async for _, data in events:
                event = decode(data)
                if event.run == run:
                    yield event


def _together(rows: Iterable[CallRow]) -> tuple[WaitShare, ...]:
    sums: dict[str, float] = {}
    for row in rows:
        for part in waits_of(row):
            sums[part.held_by] = sums.get(part.held_by, 0.0) + part.seconds
    return _longest_first(sums)


def _longest_first(sums: Mapping[str, float]) -> tuple[WaitShare, ...]:
    return tuple(WaitShare(held_by=what, seconds=sums[what]) for what in sorted(sums, key=lambda what: -sums[what]))
