"""A run service whose pool is worker processes, opened as the suite for runtimes wants it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import trio

from agents.budget import Scope
from agents.runtime import Runtime
from agents.runtime_material import Material, Subject
from agents.tools import BaseTool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.pools.pool import Pool
from orchestrator.runs.runtime import ServiceRuntime
from orchestrator.runs.service import RunService
from orchestrator.store.memory import MemoryStore
from orchestrator.views.workers import ToolTables
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.worker import Worker
from tests.runs.lasting import Kept, Link, wall
from tests.runs.running import ScriptedModels
from tests.worker.pool_wire import URL, PoolTransport

LEASE = 3.0


class Serves(Protocol):
    """Where a pool is found, or none."""

    def serve(self, pool: Pool | None) -> None: ...


class Process:
    """A run service and its pool over a store, until it is killed: from then on nothing of it reaches the store."""

    def __init__(
        self,
        store: MemoryStore,
        material: Material,
        transport: Serves,
        lease: float = LEASE,
        parent: Callable[[str], Scope | None] = lambda tenant: None,
    ) -> None:
        self._material = material
        self._parent = parent
        self._transport = transport
        self._lease = lease
        self._link = Link(store)
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    async def run(self, task_status: trio.TaskStatus[Runtime]) -> None:
        models = {"scripted": (Target("sim", "scripted"),)}
        catalogue = Catalogue(models=models, default_model="scripted", agents=self._material.agents)
        tables = ToolTables(digest="own", tools={tool.name: {} for tool in tools_of(self._material)})
        pool = Pool(lambda: tables, self._lease)
        with self._scope:
            async with trio.open_nursery() as nursery:
                service = RunService(
                    nursery,
                    models=ScriptedModels(self._material.script, self._material.pace),
                    catalogue=lambda: catalogue,
                    store=self._link,  # type: ignore[arg-type]
                    wall=wall,
                    pool=pool,
                    parent=self._parent,
                )
                await service.recover()
                await service.resume_rest()
                self._transport.serve(pool)
                task_status.started(ServiceRuntime(service, lambda: catalogue))
                await trio.sleep_forever()
        self._gone.set()

    async def kill(self) -> None:
        self._link.broken = True
        self._transport.serve(None)
        self._scope.cancel()
        await self._gone.wait()


def tools_of(material: Material) -> tuple[BaseTool, ...]:
    """All tools of its agents."""
    return tuple({tool.name: tool for agent in material.agents.values() for tool in agent.tools}.values())


@asynccontextmanager
async def _remote(material: Material, *, workers_die: bool) -> AsyncIterator[Subject]:
    store, transport = Kept(), PoolTransport()
    async with trio.open_nursery() as nursery:
        workers = trio.CancelScope()

        async def work(scope: trio.CancelScope) -> None:
            with scope:
                async with trio.open_nursery() as two:
                    for _ in range(2):
                        config = WorkerConfig(daemons=(URL,), runs=4)
                        worker = Worker(config, wires=[transport.wire()], own=tools_of(material), wall=wall)
                        two.start_soon(worker.run)

        process = Process(store, material, transport)

        async def restart() -> Runtime:
            nonlocal process, workers
            await process.kill()
            if workers_die:
                workers.cancel()
                workers = trio.CancelScope()
                nursery.start_soon(work, workers)
            process = Process(store, material, transport)
            runtime: Runtime = await nursery.start(process.run)
            return runtime

        nursery.start_soon(work, workers)
        yield Subject(await nursery.start(process.run), restart)
        await process.kill()
        workers.cancel()


def workers_that_stay(material: Material) -> AbstractAsyncContextManager[Subject]:
    """When the service's process is killed, its workers go on, and find the next one."""
    return _remote(material, workers_die=False)


def workers_that_die(material: Material) -> AbstractAsyncContextManager[Subject]:
    """The service's process and its workers are killed together."""
    return _remote(material, workers_die=True)
