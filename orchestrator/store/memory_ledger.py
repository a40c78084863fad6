"""The ledger in memory: for tests, and for daemons that keep nothing."""

from collections.abc import Callable, Sequence
from typing import Final

import trio
from msgspec.structs import replace

from orchestrator.store.ledger_port import PAGE, CallRow, SentRow, SpentRow, WentRow
from orchestrator.store.ledger_rows import LOST, day_of, input_counted, known_tokens, output_counted, slot_of, went_row

MOST_ROWS: Final = 200_000
"""Calls that it remembers; then the oldest that have ended are let go. What they came to stays."""


class MemoryLedger:
    """Implements `orchestrator.store.ledger_port.Ledger`."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._calls: dict[str, CallRow] = {}
        self._spent: dict[tuple[str, str], SpentRow] = {}
        self.lost = 0

    def __repr__(self) -> str:
        return f"<MemoryLedger of {len(self._calls)} calls>"

    def write(self, rows: Sequence[CallRow]) -> None:
        for row in rows:
            known = self._calls.get(row.key)
            if known is not None:
                if known.ended is not None:
                    continue
                self._count(known, -1)
            self._calls[row.key] = row
            self._count(row, 1)
        if len(self._calls) > self._most + self._most // 10:
            self._let_go(lambda row: row.ended is not None, len(self._calls) - self._most)

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()

    async def end_open(self, at: float) -> int:
        await trio.lowlevel.checkpoint()
        open_rows = [row for row in self._calls.values() if row.ended is None]
        self.write([replace(row, ended=at, outcome=LOST) for row in open_rows])
        return len(open_rows)

    async def spent(self, since: str = "") -> list[SpentRow]:
        await trio.lowlevel.checkpoint()
        return [row for (tenant, day), row in sorted(self._spent.items()) if day >= since]

    async def sent(self, since: float, slot: float) -> list[SentRow]:
        await trio.lowlevel.checkpoint()
        sums: dict[tuple[str, str, str, float], SentRow] = {}
        for row in self._calls.values():
            if not row.sent:
                continue
            if row.sent >= since:
                _add(sums, row, slot_of(row.sent, slot), _as_sent(row))
            ended = row.sent if row.ended is None else row.ended
            if ended >= since and row.ended is not None:
                _add(sums, row, slot_of(ended, slot), {"output": output_counted(row)})
        return [sums[key] for key in sorted(sums)]

    async def calls(
        self, *, run: str = "", key: str = "", tenant: str = "", since: float = 0.0, size: int = PAGE
    ) -> list[CallRow]:
        await trio.lowlevel.checkpoint()
        found = [
            row
            for row in self._calls.values()
            if row.arrived >= since
            and (not run or row.run == run)
            and (not key or row.key == key)
            and (not tenant or row.tenant == tenant)
        ]
        return sorted(found, key=lambda row: (row.arrived, row.key))[:size]

    async def went(self, backend: str, since: float, until: float, *, run: str = "") -> list[WentRow]:
        await trio.lowlevel.checkpoint()
        sums: dict[tuple[str, int, str, bool], WentRow] = {}
        for row in self._calls.values():
            if row.backend != backend or not row.sent or not since <= row.sent < until:
                continue
            key = row.tenant, row.priority, row.job, row.run == run != ""
            known = sums.get(key) or went_row((*key, 0, 0))
            tokens = known.tokens + input_counted(row) + output_counted(row)
            sums[key] = replace(known, calls=known.calls + 1, tokens=tokens)
        return [sums[key] for key in sorted(sums, key=lambda key: (-sums[key].calls, key))]

    async def slowest(self, since: float, *, tenant: str = "", job: str = "", size: int = 20) -> list[CallRow]:
        await trio.lowlevel.checkpoint()
        found = [
            row
            for row in self._calls.values()
            if row.arrived >= since and tenant in ("", row.tenant) and job in ("", row.job)
        ]
        return sorted(found, key=lambda row: (-row.waited, row.key))[:size]

    def prune(self, before: float) -> int:
        """Forgets calls that ended before a time; what they came to stays. How many there were."""
        return self._let_go(lambda row: row.ended is not None and row.ended < before, len(self._calls))

    def _let_go(self, which: Callable[[CallRow], bool], most: int) -> int:
        gone = [key for key, row in self._calls.items() if which(row)][:most]
        for key in gone:
            del self._calls[key]
        return len(gone)

    def _count(self, row: CallRow, sign: int) -> None:
        place = row.tenant, day_of(row.arrived)
        known = self._spent.get(place) or SpentRow(tenant=place[0], day=place[1])
        self._spent[place] = replace(
            known,
            calls=known.calls + sign * (row.ended is not None),
            tokens=known.tokens + sign * known_tokens(row),
            micro_dollars=known.micro_dollars + sign * (row.micro_dollars or 0),
            unknown_tokens=known.unknown_tokens + sign * row.unknown_tokens,
            unknown_micro_dollars=known.unknown_micro_dollars + sign * row.unknown_micro_dollars,
        )


def _as_sent(row: CallRow) -> dict[str, int]:
    attempts = 1 + row.retried
    held = {"calls": attempts, "held_input": attempts * row.held_input, "held_output": attempts * row.held_output}
    if row.ended is None:
        return {**held, "open": 1, "input": row.held_input, "output": row.held_output}
    return {**held, "input": input_counted(row), "cached": row.cached or 0}


def _add(sums: dict[tuple[str, str, str, float], SentRow], row: CallRow, at: float, amounts: dict[str, int]) -> None:
    place = row.backend, row.endpoint, row.tenant, at
    known = sums.get(place) or SentRow(backend=row.backend, endpoint=row.endpoint, tenant=row.tenant, at=at)
    sums[place] = replace(known, **{name: getattr(known, name) + amount for name, amount in amounts.items()})
