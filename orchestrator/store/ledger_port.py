"""What keeps the ledger of model calls: the same port for every store, and the rows that go through it."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

PAGE = 1_000
"""How many records or rows one read yields at most."""


class CallRow(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One model call that ended, or, with `ended` None, one that was sent and of which nothing more is known yet.

    `key` is the call's own for ever: `run/step/attempt` for an agent's, one made up for a client's. Times are seconds
    since the epoch; `waited` and `held_by` are what it waited for, `sent` when its last attempt went out (0: none did).
    Tokens are None where the provider did not say, and 0 where it certainly did no work; `unknown_*` were reserved for
    the call and may have been used. `held_*` is what limits counted for it while nothing was known: upper bounds of one
    attempt. `retried` is how many attempts failed before the last one. `waits` says for how long the call waited for
    what (`Transition.waits`), as a JSON object of seconds; empty where it went at once.
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
    waits: str = ""


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


class WentRow(Struct, frozen=True, kw_only=True):
    """Calls of one tenant, priority and job that went out at one backend in some time; `own` are those of the run that
    was named. `tokens` are input and output as reported, or as held where nothing was.
    """

    tenant: str
    priority: int
    job: str
    own: bool
    calls: int
    tokens: int


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

    async def went(self, backend: str, since: float, until: float, *, run: str = "") -> list[WentRow]:
        """What went out at a backend from one time until another, each call by its last attempt; most calls first."""
        ...

    async def slowest(self, since: float, *, tenant: str = "", job: str = "", size: int = 20) -> list[CallRow]:
        """Of the calls that arrived since a time those that waited longest, in that order; empty filters match all."""
        ...
