"""What keeps sessions: one small port, the same for every store, and the data that goes through it.

A session is an append-only log of records, numbered from 1 without gaps. A store keeps records as bytes and knows
nothing of what they mean; beside the logs it keeps an index of runs, which is written in the same move as the records
it tells of.

**Executors and leases.** Whoever drives runs is an executor: it announces itself with `beat`, and is alive until
`seconds` later by the store's clock. Taking a session raises its generation by one, and only the executor of the
present generation appends to it (`append`); an older one gets `Fenced`. A session can be taken when nobody holds it, or
when its holder is no longer alive. So ten thousand sessions cost one beat, and not ten thousand.

**From outside.** Anybody may append what does not come from the executor (`append_external`): a message, a
cancellation. The store gives it the next number; the executor's next batch then meets a `Conflict`, reads the
newcomers, and decides again.

**Acknowledged means durable.** What returned is on disk (a store in memory says that it is not). A batch is in the
log whole or not at all. A batch id that is in the session already is success, whatever generation and numbers say, so
a batch whose answer got lost can be sent again.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from orchestrator.store.ledger_port import PAGE as PAGE
from orchestrator.store.ledger_port import Ledger

LEASE_SECONDS = 30.0
"""How long an executor counts as alive after a beat."""

FENCE_SECONDS = 5.0
"""How long before the end of that time it stops by itself."""


class Record(Struct, frozen=True):
    """One entry of a session's log."""

    number: int
    data: bytes


class RunRow(Struct, frozen=True, kw_only=True):
    """What the index says of a run: whose it is, where it stands, and `head`, which is opaque here.

    `after` is the number of the event before the run's first, `created` in seconds since the epoch. `state` is a value
    of `agents.lifecycle.State`; while the run is `open`, nobody but its executor knows its state better than that.
    `number` is its place in the order of creation, over all sessions; the store gives it, whatever is written here.
    """

    run: str
    session: str
    tenant: str
    job: str
    state: str
    open: bool
    after: int
    created: float
    head: bytes
    number: int = 0


class Batch(Struct, frozen=True, kw_only=True):
    """Records that belong together, and what they change in the index of runs."""

    session: str
    id: str
    after: int
    records: tuple[bytes, ...]
    runs: tuple[RunRow, ...] = ()


class SessionView(Struct, frozen=True, kw_only=True):
    """One session. `last` is the number of its last event; times are seconds since the epoch."""

    session: str
    tenant: str
    last: int
    generation: int
    holder: str
    created: float
    updated: float


class RunQuery(Struct, frozen=True, kw_only=True):
    """Which runs of the index: empty filters match all. `before` is a `RunRow.number`, 0 for the newest.

    Where `open` is set, only those that are open, or only those that have ended.
    """

    states: frozenset[str] = frozenset()
    tenant: str = ""
    job: str = ""
    session: str = ""
    open: bool | None = None
    before: int = 0
    size: int = 100


class RunRows(Struct, frozen=True):
    """Runs, the newest first. `total` counts those that match, before the page was cut."""

    rows: tuple[RunRow, ...]
    total: int


class Pruned(Struct, frozen=True):
    """What was removed."""

    sessions: int
    runs: int
    events: int
    calls: int


class Store(Protocol):
    """A store. Every method may raise `StoreError`. Cancelling one leaves the store whole; what was handed over by then
    may or may not happen.
    """

    @property
    def kind(self) -> Literal["memory", "sqlite", "postgres"]:
        """Which one it is."""
        ...

    @property
    def durable(self) -> bool:
        """Whether what was acknowledged survives the process."""
        ...

    # Executors

    async def beat(self, holder: str, seconds: float = LEASE_SECONDS) -> None:
        """The executor `holder` is alive for so long from now."""
        ...

    async def drop(self, holder: str) -> None:
        """The executor is gone: what it held is free at once."""
        ...

    async def take(self, session: str, holder: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        """Takes the session's lease for a living executor, and appends `batch` in the same move.

        A session that does not exist is made, for `tenant`, by a batch behind 0. Taking what one holds already raises
        the generation as well. Raises `SessionBusy` where another living executor holds it, `UnknownSession` without a
        batch, `Conflict` as `append` does, `DuplicateSession` where the batch has a run that exists.
        """
        ...

    async def release(self, session: str, generation: int) -> None:
        """Lets go of the lease; if it is another generation's by now, nothing happens."""
        ...

    # Logs

    async def append(self, batch: Batch, generation: int) -> int:
        """Appends an executor's batch; the number of the batch's last event, also where it was there already.

        Raises `Fenced`, `Conflict`, `UnknownSession`, `DuplicateSession`.
        """
        ...

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        """Appends what comes from outside behind whatever is there; the number of its last event.

        The same `key` again changes nothing, and gives the same number.
        Raises `UnknownSession`.
        """
        ...

    async def read(self, session: str, after: int = 0, size: int = PAGE) -> list[Record]:
        """The records behind a number, at most `size`. Raises `UnknownSession`."""
        ...

    def watch(self, session: str, after: int = 0) -> AsyncGenerator[Record, None]:
        """The records behind a number, then new ones as they come, without end. Misses and repeats none.

        Raises `UnknownSession` where there is none, or no longer.
        """
        ...

    # The index

    async def session(self, session: str) -> SessionView:
        """One session. Raises `UnknownSession`."""
        ...

    async def sessions(self, *, tenant: str = "", after: str = "", size: int = 100) -> list[SessionView]:
        """Sessions in the order of their names, behind `after`."""
        ...

    async def run(self, run: str) -> RunRow | None:
        """What the index says of a run; None where it knows none."""
        ...

    async def runs(self, query: RunQuery) -> RunRows:
        """Runs, the newest first."""
        ...

    async def states(self, tenant: str = "") -> dict[str, int]:
        """How many runs there are in each state."""
        ...

    # Blobs

    async def put_blob(self, data: bytes) -> str:
        """Keeps data too large for a log; its SHA-256 in hex. The same data again is kept once."""
        ...

    async def get_blob(self, digest: str) -> bytes | None:
        """The data, or None where there is none."""
        ...

    # The ledger

    @property
    def ledger(self) -> Ledger:
        """The model calls that ended, and what they came to."""
        ...

    # Upkeep

    async def prune(self, before: float) -> Pruned:
        """Removes what nobody has touched since `before` (seconds since the epoch): sessions without an open run, the
        blobs that only they had, calls of the ledger. Totals of the ledger stay.
        """
        ...

    async def aclose(self) -> None:
        """Finishes what was handed over, and lets go of everything."""
        ...
