"""A store without threads that outlives its daemons, and each daemon's troubled way to it; a wall clock that jumps."""

from collections.abc import Sequence
from typing import Any

import trio

from orchestrator.store.errors import StoreAway, StoreClosed, StoreFull, StoreLocked
from orchestrator.store.memory import MemoryStore

EPOCH = 1_700_000_000.0
SLOW = 2.0
LATE = 45.0


class Wall:
    """Seconds since the epoch, as an operator or a time server sets them."""

    def __init__(self, jumps: Sequence[tuple[float, float]]) -> None:
        self._jumps = sorted(jumps)

    def __call__(self) -> float:
        now = trio.current_time()
        return EPOCH + now + sum(by for at, by in self._jumps if at <= now)


class Disk(MemoryStore):
    """Stays when a daemon goes."""

    durable = True


class Way:
    """One daemon's way to the disk, with the trouble of the schedule; `broken`: this daemon is dead.

    `late` does what it is asked, and says so later than anybody waits for it. `unsure` does it and loses the answer: a
    daemon that is told so ends, and is started again.
    """

    def __init__(self, disk: Disk, trouble: Sequence[tuple[float, float, str]]) -> None:
        self._disk = disk
        self._trouble = trouble
        self.broken = False
        self.away = trio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._disk, name)
        if name in ("kind", "durable", "ledger", "watch"):
            return found

        async def ask(*args: Any, **kwargs: Any) -> Any:
            kinds = self._kinds()
            await self._meet(kinds)
            answer = await found(*args, **kwargs)
            if "late" in kinds:
                await trio.sleep(LATE)
            if "unsure" in kinds:
                self.away.set()
                raise StoreAway("the connection broke off before an answer came")
            return answer

        return ask

    def _kinds(self) -> set[str]:
        now = trio.current_time()
        return {kind for begin, end, kind in self._trouble if begin <= now < end}

    async def _meet(self, kinds: set[str]) -> None:
        if "slow" in kinds:
            await trio.sleep(SLOW)
        else:
            await trio.lowlevel.checkpoint()
        if self.broken:
            raise StoreClosed("this daemon is dead")
        if "locked" in kinds:
            raise StoreLocked("the store is locked")
        if "full" in kinds:
            raise StoreFull("no room on the disk")
