"""Which daemon of a database is the active one: a lease, taken over when its time has run out.

The table has one row: who leads, until when by the server's clock, and an epoch that rises with each new leader.
Every group that a leader writes checks the epoch in its own transaction, under a lock that a take-over waits for. So
however late an old leader wakes, it can write nothing after the new one has begun. A take-over also drops the old
leader as an executor: nothing of it is left to wait for. Where a leader was stopped in the middle of a transaction,
its connection holds that lock for as long as it stands still; once its lease has run out, such connections are ended.

A leader renews three times in a lease's time. When that has not worked until a sixth of it is left, it stops by
itself. One that stands by asks again when the lease it saw runs out, or when the leader says that it goes; it polls
nothing.
"""

import time
from contextlib import suppress
from typing import Final

import msgspec
import psycopg
import trio
from msgspec import Struct
from psycopg import sql

from orchestrator.store.bells import Bells
from orchestrator.store.errors import StoreAway, StoreError
from orchestrator.store.postgres_group import NOTIFY
from orchestrator.store.postgres_readers import Readers
from orchestrator.store.postgres_schema import Link

BELL: Final = ""
"""What a daemon that stands by listens to; no session has this name."""

_RELEASE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0
_AGAIN_SOON_SECONDS: Final = 0.05

_LOOK: Final = (
    "SELECT holder, epoch, CASE WHEN until > clock_timestamp()"
    " THEN extract(epoch FROM until - clock_timestamp())::float8 ELSE 0.0 END FROM daemon"
)
_STALLED_SECONDS: Final = 1.0
"""How long another's transaction may be in the way of a take-over. What a leader writes takes a small part of that."""

_END_STALLED: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE relation = 'daemon'::regclass AND mode = 'RowShareLock' AND granted AND pid <> pg_backend_pid()"
    " AND xact_start < clock_timestamp() - make_interval(secs => %s)"
)
_UNTIL: Final = "until = clock_timestamp() + make_interval(secs => %s)"


class Leader(Struct, frozen=True):
    """Who leads: `seconds` are left of its lease, 0 where nobody does."""

    holder: str
    epoch: int
    seconds: float


class DaemonLease:
    """One candidate for it. `epoch` is 0 before it leads."""

    def __init__(self, readers: Readers, bells: Bells, holder: str, seconds: float) -> None:
        self._readers = readers
        self._bells = bells
        self._holder = holder
        self._seconds = seconds
        self._asked = 0.0
        self._renewed = 0.0
        self.epoch = 0

    async def wait(self) -> int:
        """Waits until this candidate leads; its epoch."""
        listener = self._bells.listen(BELL)
        try:
            while True:
                listener.rang = trio.Event()
                leader = await self._ask()
                if leader.holder == self._holder:
                    self.epoch = leader.epoch
                    self._renewed = trio.current_time() - (time.monotonic() - self._asked)
                    return self.epoch
                with trio.move_on_after(leader.seconds):
                    await listener.rang.wait()
        finally:
            listener.close()

    async def _ask(self) -> Leader:
        """Takes the lease if it is free; who leads. A candidate outlasts a server that is away."""
        while True:
            try:
                return await self._readers.query(self._take)
            except StoreAway:
                await trio.sleep(_AGAIN_SECONDS)

    async def keep(self) -> None:
        """Renews the lease; returns when it is lost, or can't be shown any more to be held."""
        while True:
            with trio.move_on_at(self._renewed + self._seconds * 5 / 6) as patience:
                await trio.sleep_until(self._renewed + self._seconds / 3)
                try:
                    sent = trio.current_time()
                    if not await self._readers.query(self._renew):
                        return
                    self._renewed = sent
                except StoreError:
                    await trio.sleep_forever()
            if patience.cancelled_caught:
                return

    async def release(self) -> None:
        """Gives the lease back, so that whoever stands by goes on at once; where that does not work, it runs out."""
        with trio.move_on_after(_RELEASE_SECONDS, shield=True):
            with suppress(StoreError):
                await self._readers.query(self._give_back)

    # On a reader's thread

    def _take(self, link: Link) -> Leader:
        self._asked = time.monotonic()  # the server may have been away since the question was handed over
        try:
            return self._take_in_turn(link)
        except psycopg.errors.LockNotAvailable:
            leader = look(link)
            if leader.seconds <= 0:
                link.execute(_END_STALLED, [_STALLED_SECONDS])
            return msgspec.structs.replace(leader, seconds=max(leader.seconds, _AGAIN_SOON_SECONDS))

    def _take_in_turn(self, link: Link) -> Leader:
        with link.transaction():
            link.execute(sql.SQL("SET LOCAL lock_timeout TO {}").format(sql.Literal(f"{_STALLED_SECONDS:g}s")))
            link.execute("SELECT 1 FROM daemon FOR UPDATE")
            leader = look(link)
            if leader.seconds > 0 and leader.holder != self._holder:
                return leader
            if leader.holder != self._holder:
                link.execute("DELETE FROM executors WHERE holder = %s", [leader.holder])
            values = [self._holder, self._seconds]
            link.execute(f"UPDATE daemon SET holder = %s, epoch = epoch + 1, {_UNTIL}", values)
            return look(link)

    def _renew(self, link: Link) -> bool:
        return link.execute(f"UPDATE daemon SET {_UNTIL} WHERE epoch = %s", [self._seconds, self.epoch]).rowcount == 1

    def _give_back(self, link: Link) -> None:
        with link.transaction():
            link.execute("UPDATE daemon SET until = '-infinity' WHERE epoch = %s", [self.epoch])
            link.execute(NOTIFY, [""])


def look(link: Link) -> Leader:
    """Who leads."""
    row = link.execute(_LOOK).fetchone()
    assert row is not None
    return Leader(*row)
