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

LEASE_SECONDS = 30.0
"""How long an executor counts as alive after a beat."""

FENCE_SECONDS = 5.0
"""How long before the end of that time it stops by itself."""

PAGE = 1_000
"""How many records one read yields at most."""


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
    def ledger(self) -> "Ledger":
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


class CallRow(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One model call that ended, or, with `ended` None, one that was sent and of which nothing more is known yet.

    `key` is the call's own for ever: `run/step/attempt` for an agent's, one made up for a client's. Times are seconds
    since the epoch; `waited` and `held_by` are what it waited for, `sent` when its last attempt went out (0: none did).
    Tokens are None where the provider did not say, and 0 where it certainly did no work; `unknown_*` were reserved for
    the call and may have been used. `held_*` is what limits counted for it while nothing was known: upper bounds of one
    attempt. `retried` is how many attempts failed before the last one.
    """

    key: str
    tenant: str
    job: str = ""
    run: str = ""
    priority: int = 1
    backend: str = ""
    endpoint: str = ""
    model: str = ""
    arrived: float = 0.0
    sent: float = 0.0
    first_token: float | None = None
    ended: float | None = None
    outcome: str = ""
    retried: int = 0
    waited: float = 0.0
    held_by: str = ""
    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    micro_dollars: int | None = None
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0
    held_input: int = 0
    held_output: int = 0


class SpentRow(Struct, frozen=True, kw_only=True):
    """What a tenant's calls that arrived on one day (UTC, `2026-01-31`) came to.

    Calls of which nothing more is known yet are not among `calls`, and what was reserved for them is unknown.
    """

    tenant: str
    day: str
    calls: int = 0
    tokens: int = 0
    micro_dollars: int = 0
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0


class SentRow(Struct, frozen=True, kw_only=True):
    """What went to one endpoint for one tenant in a slot of time that begins at `at` (seconds since the epoch).

    `calls` counts every attempt that was sent, `open` those calls of which nothing more is known. `input` (with
    `cached`, the part of it that was read from a cache) and `output` are as reported, or as held where nothing was;
    `held_*` are as held for all. Everything counts in the slot in which its call's last attempt was sent, but output
    in the one in which the call ended: it came in between, and a limit may count it as it is produced.
    """

    backend: str
    endpoint: str
    tenant: str
    at: float
    calls: int = 0
    open: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    held_input: int = 0
    held_output: int = 0


class Ledger(Protocol):
    """One row per model call, by its key; no prompts. What was written of a key before is replaced, except that a call
    that ended stays ended.
    """

    def write(self, rows: Sequence[CallRow]) -> None:
        """Hands rows over to be written soon, in order and before anything that is handed to the store later.

        Never blocks and never fails: where the store cannot keep up or is broken, `lost` counts what was dropped.
        """
        ...

    @property
    def lost(self) -> int:
        """Rows that were handed over and could not be kept."""
        ...

    async def flush(self) -> None:
        """Returns when all that was handed over before is durable. Raises `StoreError` where it is not."""
        ...

    async def end_open(self, at: float) -> int:
        """Ends all calls that are open as `lost`: nobody learns any more what became of them. How many there were.

        For when a daemon starts, before its own calls. What was reserved for them stays spent.
        """
        ...

    async def spent(self, since: str = "") -> list[SpentRow]:
        """What tenants' calls came to, by day, from the day `since` on. Includes calls whose rows were pruned."""
        ...

    async def sent(self, since: float, slot: float) -> list[SentRow]:
        """What was sent since a time, added up by slots of so many seconds."""
        ...

    async def calls(
        self, *, run: str = "", key: str = "", tenant: str = "", since: float = 0.0, size: int = PAGE
    ) -> list[CallRow]:
        """Calls in the order of their arrival, the oldest first; empty filters match all."""
        ...
