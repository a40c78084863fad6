"""Ledgers to test, and rows to write into them."""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from orchestrator.store.ledger_port import CallRow
from orchestrator.store.sqlite_ledger import make_ledger_tables

T = TypeVar("T")

NOON = 1_770_033_600.0
"""2026-02-02, 12:00 UTC."""


class DirectDatabase:
    """A store's writer without a thread: posted work waits until something is submitted; `fail` is what it meets."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        make_ledger_tables(self.connection)
        self.fail: Exception | None = None
        self.groups = 0
        self._posted: list[tuple[Callable[[Any], object], Callable[[Exception], object] | None]] = []

    def post(self, work: Callable[[Any], object], failed: Callable[[Exception], object] | None = None) -> None:
        self._posted.append((work, failed))

    async def submit(self, work: Callable[[Any], T]) -> T:
        await trio.lowlevel.checkpoint()
        posted, self._posted = self._posted, []
        for one, failed in posted:
            self._do(one, failed)
        if self.fail is not None:
            raise self.fail
        return work(self.connection)

    async def query(self, work: Callable[[Any], T]) -> T:
        return await self.submit(work)

    def _meet_failure(self) -> None:
        if self.fail is not None:
            raise self.fail

    def _do(self, work: Callable[[Any], object], failed: Callable[[Exception], object] | None) -> None:
        self.groups += 1
        self.connection.execute("BEGIN")
        try:
            work(self.connection)
            self._meet_failure()
        except Exception as error:
            self.connection.execute("ROLLBACK")
            if failed is not None:
                failed(error)
        else:
            self.connection.execute("COMMIT")


def sent_row(key: str, at: float = 0.0, **changes: Any) -> CallRow:
    """A call of which nothing more is known; `at` is in seconds since noon."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "backend": "main",
        "endpoint": "one",
        "model": "small",
        "arrived": NOON + at,
        "sent": NOON + at,
        "unknown_tokens": 100,
        "unknown_micro_dollars": 50,
        "held_input": 60,
        "held_output": 40,
    }
    return CallRow(key=key, **{**fields, **changes})


def ended_row(key: str, at: float = 0.0, **changes: Any) -> CallRow:
    """A call that was answered a second after it was sent."""
    fields: dict[str, Any] = {
        "ended": NOON + at + 1.0,
        "outcome": "ok",
        "input": 30,
        "cached": 10,
        "output": 5,
        "micro_dollars": 7,
        "unknown_tokens": 0,
        "unknown_micro_dollars": 0,
    }
    return sent_row(key, at, **{**fields, **changes})
