"""A store in memory: whole and ordered like the others, and gone with its process."""

import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal

import trio
from msgspec import Struct, field

from orchestrator.store.base import (
    LEASE_SECONDS,
    PAGE,
    Batch,
    Pruned,
    Record,
    RunQuery,
    RunRow,
    RunRows,
    SessionView,
)
from orchestrator.store.bells import Bells, follow
from orchestrator.store.errors import StoreClosed, UnknownSession
from orchestrator.store.memory_ledger import MemoryLedger
from orchestrator.store.memory_runs import MemoryRuns
from orchestrator.store.rules import (
    Executors,
    must_append,
    must_be_alive,
    must_be_free,
    must_follow,
)


class _Session(Struct):
    name: str
    tenant: str
    created: float
    updated: float
    generation: int = 0
    holder: str = ""
    records: list[bytes] = field(default_factory=list)
    batches: dict[str, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return len(self.records)

    def add(self, key: str, records: Sequence[bytes], now: float) -> int:
        if records:
            self.records += records
            self.updated = now
            self.batches[key] = self.last
        return self.last

    def view(self) -> SessionView:
        return SessionView(
            session=self.name,
            tenant=self.tenant,
            last=self.last,
            generation=self.generation,
            holder=self.holder,
            created=self.created,
            updated=self.updated,
        )


class MemoryStore:
    """Implements `Store`. `wall` is its clock, in seconds since the epoch."""

    kind: Literal["memory"] = "memory"
    durable = False

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._sessions: dict[str, _Session] = {}
        self._runs = MemoryRuns()
        self._blobs: dict[str, tuple[float, bytes]] = {}
        self._executors = Executors()
        self._bells = Bells()
        self._ledger = MemoryLedger()
        self._closed = False

    async def beat(self, holder: str, seconds: float = LEASE_SECONDS) -> None:
        await self._enter()
        now = self._wall()
        self._executors.beat(holder, now + seconds, now)

    async def drop(self, holder: str) -> None:
        await self._enter()
        self._executors.drop(holder)

    async def take(self, session: str, holder: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        await self._enter()
        now = self._wall()
        must_be_alive(self._executors, holder, now)
        found = self._sessions.get(session)
        stored = batch is not None and found is not None and batch.id in found.batches
        if batch is not None and not stored:
            self._runs.check(batch)
        if found is None:
            if batch is None or batch.after:
                raise _unknown(session)
            found = _Session(session, tenant, now, now)
        else:
            must_be_free(found, holder, self._executors, now)
        if batch is not None and not stored:
            must_follow(found, batch)
            self._sessions[session] = found
            self._add(found, batch, now)
        found.generation += 1
        found.holder = holder
        return found.view()

    async def release(self, session: str, generation: int) -> None:
        await self._enter()
        found = self._sessions.get(session)
        if found is not None and found.generation == generation:
            found.holder = ""

    async def append(self, batch: Batch, generation: int) -> int:
        await self._enter()
        found = self._find(batch.session)
        stored = found.batches.get(batch.id)
        if stored is not None:
            return stored
        must_append(found, batch, generation)
        self._runs.check(batch)
        return self._add(found, batch, self._wall())

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        await self._enter()
        found = self._find(session)
        stored = found.batches.get(key)
        if stored is None:
            stored = found.add(key, records, self._wall())
            self._bells.ring(session)
        return stored

    async def read(self, session: str, after: int = 0, size: int = PAGE) -> list[Record]:
        await self._enter()
        records = self._find(session).records[after : after + size]
        return [Record(number, data) for number, data in enumerate(records, after + 1)]

    def watch(self, session: str, after: int = 0) -> AsyncGenerator[Record, None]:
        return follow(self._bells, self.read, session, after)

    async def session(self, session: str) -> SessionView:
        await self._enter()
        return self._find(session).view()

    async def sessions(self, *, tenant: str = "", after: str = "", size: int = 100) -> list[SessionView]:
        await self._enter()
        names = (name for name, one in self._sessions.items() if name > after and tenant in ("", one.tenant))
        return [self._sessions[name].view() for name in sorted(names)[:size]]

    async def run(self, run: str) -> RunRow | None:
        await self._enter()
        return self._runs.get(run)

    async def runs(self, query: RunQuery) -> RunRows:
        await self._enter()
        return self._runs.page(query)

    async def states(self, tenant: str = "") -> dict[str, int]:
        await self._enter()
        return self._runs.states(tenant)

    async def put_blob(self, data: bytes) -> str:
        await self._enter()
        digest = hashlib.sha256(data).hexdigest()
        self._blobs[digest] = (self._wall(), data)
        return digest

    async def get_blob(self, digest: str) -> bytes | None:
        await self._enter()
        found = self._blobs.get(digest)
        return None if found is None else found[1]

    @property
    def ledger(self) -> MemoryLedger:
        return self._ledger

    async def prune(self, before: float) -> Pruned:
        await self._enter()
        now = self._wall()
        busy = self._runs.sessions_with_open()
        doomed = [one for one in self._sessions.values() if one.updated < before and one.name not in busy]
        doomed = [one for one in doomed if not (one.holder and self._executors.alive(one.holder, now))]
        events = sum(one.last for one in doomed)
        runs = self._runs.forget({one.name for one in doomed})
        for one in doomed:
            del self._sessions[one.name]
            self._bells.ring(one.name)
        self._prune_blobs(before)
        return Pruned(len(doomed), runs, events, self._ledger.prune(before))

    def forget(self, session: str) -> None:
        """Lets go of a session at once, so that what passes through takes no more memory than what is kept."""
        if self._sessions.pop(session, None) is not None:
            self._runs.forget([session])
            self._bells.ring(session)

    async def aclose(self) -> None:
        self._closed = True
        self._bells.ring_all()
        await trio.lowlevel.checkpoint()

    def _prune_blobs(self, before: float) -> None:
        old = {digest for digest, (kept, _) in self._blobs.items() if kept < before}
        for one in self._sessions.values():
            for record in one.records if old else ():
                old -= {digest for digest in old if digest.encode() in record}
        for digest in old:
            del self._blobs[digest]

    def _add(self, found: _Session, batch: Batch, now: float) -> int:
        last = found.add(batch.id, batch.records, now)
        self._runs.put(batch.runs)
        self._bells.ring(batch.session)
        return last

    def _find(self, session: str) -> _Session:
        try:
            return self._sessions[session]
        except KeyError:
            raise _unknown(session) from None

    async def _enter(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise StoreClosed("the store is closed")


def _unknown(session: str) -> UnknownSession:
    return UnknownSession(f"there is no session {session}")
