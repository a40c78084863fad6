"""What the ledgers of all stores share: a call's columns, what it comes to, and rows on their way to a writer."""

import datetime
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import astuple

from orchestrator.store.errors import StoreAway, StoreError, StoreFull, StoreLocked
from orchestrator.store.ledger_port import CallRow, WentRow

T = TypeVar("T")

COLUMNS: Final[tuple[str, ...]] = CallRow.__struct_fields__
"""Of the table of calls, in this order."""

MOST_WAITING: Final = 200_000
"""Rows that may wait for a store that does not keep up, or has no room; what comes on top is lost."""

LOST: Final = "lost"
"""The outcome of a call of which nobody learns any more what became of it."""

_LARGEST: Final = 2**50
"""What is larger was misread, and sums of it would not fit into a column."""


def day_of(wall: float) -> str:
    """The day (UTC) of a time in seconds since the epoch, like `2026-01-31`."""
    return f"{datetime.datetime.fromtimestamp(wall, datetime.UTC):%Y-%m-%d}"


def slot_of(wall: float, slot: float) -> float:
    """When the slot of so many seconds begins that a time is in."""
    return wall // slot * slot


def known_tokens(row: CallRow) -> int:
    """The tokens that were reported."""
    return (row.input or 0) + (row.cached or 0) + (row.cache_write or 0) + (row.output or 0)


def input_counted(row: CallRow) -> int:
    """The whole input as reported, or as held where nothing was."""
    return row.held_input if row.input is None else row.input + (row.cached or 0) + (row.cache_write or 0)


def output_counted(row: CallRow) -> int:
    """The output as reported, or as held where nothing was."""
    return row.held_output if row.output is None else row.output


def went_row(values: Sequence[Any]) -> WentRow:
    """A row of `Ledger.went` from its columns."""
    tenant, priority, job, own, calls, tokens = values
    return WentRow(tenant=tenant, priority=priority, job=job, own=bool(own), calls=calls, tokens=tokens)


def fit_to_keep(row: CallRow) -> tuple[Any, ...]:
    """A row's columns as any database takes them, whatever a provider or a program has said."""
    values = astuple(row)
    if row.model.isprintable() and row.tenant.isprintable() and known_tokens(row) + (row.micro_dollars or 0) < _LARGEST:
        return values
    return tuple(_fit(value) for value in values)


def _fit(value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-8", "replace").decode().replace("\0", "")
    if type(value) is int:
        return min(value, _LARGEST)
    return value


class Batch:
    """Rows on their way: more may come in until the writer begins with it. The same work again does the same."""

    __slots__ = ("_begun", "_keep", "_lock", "rows")

    def __init__(self, rows: dict[str, CallRow], keep: Callable[[Any, Sequence[CallRow]], object]) -> None:
        self.rows = rows
        self._keep = keep
        self._begun = False
        self._lock = threading.Lock()

    def take_in(self, rows: Iterable[CallRow]) -> bool:
        """Adds rows; False, and nothing was added, where it is too late for that."""
        with self._lock:
            if self._begun:
                return False
            for row in rows:
                put(self.rows, row)
            return True

    def write(self, connection: Any) -> None:
        """For the writer's thread, inside a transaction."""
        with self._lock:
            self._begun = True
        self._keep(connection, tuple(self.rows.values()))


def put(rows: dict[str, CallRow], row: CallRow) -> None:
    """Replaces what there is of the row's key, unless that has ended."""
    known = rows.get(row.key)
    if known is None or known.ended is None:
        rows[row.key] = row


class Outbox:
    """Rows handed over in order to a store's writer. Where that has no room for a while, they wait for it."""

    def __init__(
        self,
        post: Callable[[Callable[[Any], object], Callable[[Exception], object]], object],
        submit: Callable[[Callable[[Any], None]], Any],
        keep: Callable[[Any, Sequence[CallRow]], object],
    ) -> None:
        self._post = post
        self._submit = submit
        self._keep = keep
        self._batch: Batch | None = None
        self._failed: dict[str, CallRow] = {}
        self._error: Exception | None = None
        self.lost = 0

    def write(self, rows: Sequence[CallRow]) -> None:
        """See `Ledger.write`."""
        batch = self._batch
        if batch is not None:
            if len(batch.rows) >= MOST_WAITING:
                self.lost += len(rows)
                return
            if batch.take_in(rows):
                return
        self._send(rows)

    async def flush(self) -> None:
        """See `Ledger.flush`."""
        if self._failed:
            self._send(())
        lost, self._error = self.lost, None
        await self._submit(_nothing)
        self._raise_error()
        if self.lost > lost:
            raise StoreError(f"{self.lost - lost} calls could not be kept: more than {MOST_WAITING} wait for the store")

    def _raise_error(self) -> None:
        error = self._error
        if error is not None:
            raise error if isinstance(error, StoreError) else StoreError(f"calls could not be kept: {error}")

    def _send(self, rows: Sequence[CallRow]) -> None:
        waiting, self._failed = self._failed, {}
        batch = self._batch = Batch(waiting, self._keep)
        batch.take_in(rows)
        try:
            self._post(batch.write, lambda error: self._could_not(batch, error))
        except StoreError as error:
            self._could_not(batch, error)

    def _could_not(self, batch: Batch, error: Exception) -> None:
        if self._batch is batch:
            self._batch = None
        self._error = error
        if not isinstance(error, StoreFull | StoreLocked | StoreAway):
            self.lost += len(batch.rows)
            return
        for row in batch.rows.values():
            if len(self._failed) < MOST_WAITING:
                put(self._failed, row)
            else:
                self.lost += 1


def _nothing(_: Any) -> None:
    """Done when all that was handed over before is."""


class Database(Protocol):
    """What a ledger needs of its store: work for the writer's thread and for a reader's, each with a connection."""

    async def submit(self, work: Callable[[Any], T]) -> T: ...

    def post(self, work: Callable[[Any], object], failed: Callable[[Exception], object] | None = None) -> None: ...

    async def query(self, work: Callable[[Any], T]) -> T: ...


class DatabaseLedger:
    """The part of `orchestrator.store.ledger_port.Ledger` that is the same in every database: rows on their way to it.

    `keep` writes a batch of rows over a connection.
    """

    def __init__(self, database: Database, keep: Callable[[Any, Sequence[CallRow]], object]) -> None:
        self._database = database
        self._outbox = Outbox(database.post, database.submit, keep)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} lost={self.lost}>"

    @property
    def lost(self) -> int:
        """See `Ledger.lost`."""
        return self._outbox.lost

    def write(self, rows: Sequence[CallRow]) -> None:
        """See `Ledger.write`."""
        self._outbox.write(rows)

    async def flush(self) -> None:
        """See `Ledger.flush`."""
        await self._outbox.flush()
