"""Daemons that come and go over one store that stays, in virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from agents.events import Event, decode
from agents.port import Journal
from agents.scripted import Script
from orchestrator.catalogue import Catalogue
from orchestrator.runs.service import RunsConfig, RunService
from orchestrator.store.errors import StoreClosed
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import RunRequest
from tests.runs.running import CATALOGUE, EPOCH, SCRIPT, SEEKER, ScriptedModels


def wall() -> float:
    return EPOCH + trio.current_time()


class Kept(MemoryStore):
    """A store that stays when a daemon goes, like one on a disk; `log` is all that a session ever had."""

    durable = True

    def __init__(self) -> None:
        super().__init__(wall)

    async def log(self, session: str) -> list[Event]:
        return [decode(record.data) for record in await self.read(session)]


class Link:
    """One daemon's way to the store. `broken`: whatever it asks fails, as if one of both were gone.

    `late`: it is done, and said so many seconds later.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.broken = False
        self.late = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in ("kind", "durable", "ledger", "watch"):
            return found

        async def ask(*args: Any, **kwargs: Any) -> Any:
            if self.broken:
                await trio.lowlevel.checkpoint()
                raise StoreClosed("the store is gone")
            answer = await found(*args, **kwargs)
            if self.late:
                await trio.sleep(self.late)
            return answer

        return ask


class Daemon:
    """A service over the store, and its way to it."""

    def __init__(
        self,
        nursery: trio.Nursery,
        store: MemoryStore,
        script: Script,
        catalogue: Catalogue,
        journal: Callable[[Journal], Journal],
        config: RunsConfig,
    ) -> None:
        self.catalogue = catalogue
        self.link = Link(store)
        self.models = ScriptedModels(script, 1.0)
        self.service = RunService(
            nursery,
            models=self.models,
            catalogue=lambda: self.catalogue,
            store=self.link,  # type: ignore[arg-type]
            journal=journal,
            config=config,
            wall=wall,
        )

    async def start(self, **asked: Any) -> str:
        return (await self.service.start(RunRequest(**{"task": "x", "who": SEEKER} | asked))).run


@asynccontextmanager
async def daemon(
    store: MemoryStore,
    *,
    script: Script = SCRIPT,
    catalogue: Catalogue = CATALOGUE,
    journal: Callable[[Journal], Journal] = lambda log: log,
    resume: bool = True,
    **config: int,
) -> AsyncIterator[Daemon]:
    """A daemon until the block is left; then it is killed, unless it was ended before."""
    with trio.fail_after(1_000_000):
        async with trio.open_nursery() as nursery:
            made = Daemon(nursery, store, script, catalogue, journal, RunsConfig(**config))
            await made.service.recover()
            if resume:
                await made.service.resume_rest()
            yield made
            made.link.broken = True
            nursery.cancel_scope.cancel()
