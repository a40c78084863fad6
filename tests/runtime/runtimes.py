"""The runtimes there are, opened as the suite wants them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from agents.journal import MemoryJournal
from agents.runtime import LocalRuntime, Runtime
from agents.runtime_material import Material, Subject
from agents.scripted import ScriptedModel
from orchestrator.catalogue import Catalogue, Target
from orchestrator.runs.runtime import ServiceRuntime
from orchestrator.runs.service import RunService
from orchestrator.store.memory import MemoryStore
from tests.runs.lasting import Kept, Link, wall
from tests.runs.running import ScriptedModels


@asynccontextmanager
async def local(material: Material) -> AsyncIterator[Subject]:
    """The in-process runtime; its process is its nursery."""
    scope = trio.CancelScope()

    async def process(task_status: trio.TaskStatus[Runtime]) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                model = ScriptedModel(material.script, latency=material.pace)
                task_status.started(LocalRuntime(nursery, model=model, journal=MemoryJournal()))
                await trio.sleep_forever()

    async with trio.open_nursery() as outer:
        runtime: Runtime = await outer.start(process)

        async def restart() -> Runtime:
            scope.cancel()
            return runtime

        yield Subject(runtime, restart)
        scope.cancel()


class _Process:
    """A run service over a store, until it is killed: from then on nothing of it reaches the store."""

    def __init__(self, store: MemoryStore, material: Material) -> None:
        self._store = store
        self._material = material
        self._link = Link(store)
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    async def run(self, task_status: trio.TaskStatus[Runtime]) -> None:
        models = {"scripted": (Target("sim", "scripted"),)}
        catalogue = Catalogue(models=models, default_model="scripted", agents=self._material.agents)
        with self._scope:
            async with trio.open_nursery() as nursery:
                service = RunService(
                    nursery,
                    models=ScriptedModels(self._material.script, self._material.pace),
                    catalogue=lambda: catalogue,
                    store=self._link,  # type: ignore[arg-type]
                    wall=wall,
                )
                await service.recover()
                await service.resume_rest()
                task_status.started(ServiceRuntime(service, lambda: catalogue))
                await trio.sleep_forever()
        self._gone.set()

    async def kill(self) -> None:
        self._link.broken = True
        self._scope.cancel()
        await self._gone.wait()


@asynccontextmanager
async def _service(material: Material, store: MemoryStore | None) -> AsyncIterator[Subject]:
    async with trio.open_nursery() as nursery:
        process = _Process(store or MemoryStore(wall), material)

        async def restart() -> Runtime:
            nonlocal process
            await process.kill()
            process = _Process(store or MemoryStore(wall), material)
            runtime: Runtime = await nursery.start(process.run)
            return runtime

        yield Subject(await nursery.start(process.run), restart)
        await process.kill()


def service_in_memory(material: Material) -> AbstractAsyncContextManager[Subject]:
    """A run service whose runs are gone with its process."""
    return _service(material, None)


def service_on_disk(material: Material) -> AbstractAsyncContextManager[Subject]:
    """A run service over a store that stays when its process is killed."""
    return _service(material, Kept())
