"""A worker and a pool in one process and in virtual time."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from agents.scripted import Script, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import BaseTool, tool
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.worker import Worker
from tests.worker.fake_pool import LEASE, FakePool
from tests.worker.pool_wire import URL, PoolTransport

EPOCH = 1_700_000_000.0

MADE: list[str] = []
"""What calls of `post` and `look` have begun, and which of them have ended."""


@tool()
async def post(text: str) -> str:
    """Sends a letter, which takes a minute."""
    MADE.append(f"post {text}")
    await trio.sleep(60)
    MADE.append(f"sent {text}")
    return f"sent {text}"


@tool(read_only=True)
async def look(where: str) -> str:
    """Looks somewhere for a second."""
    MADE.append(f"look {where}")
    await trio.sleep(1)
    return f"seen {where}"


POSTER = AgentSpec(name="poster", model="scripted", tools=(post,))
LOOKER = AgentSpec(name="looker", model="scripted", tools=(look,))
POSTS = in_turn(ask("post", {"text": "a"}), say("done"))
LOOKS = in_turn(ask("look", {"where": "a"}), say("done"))


class Place:
    """A pool, a worker's way to it, and workers."""

    def __init__(self, nursery: trio.Nursery, pool: FakePool) -> None:
        self.nursery = nursery
        self.pool = pool
        self.transport = PoolTransport(pool)
        self.told: list[str] = []

    async def until(self, condition: Callable[[], object]) -> None:
        """Until it holds, which is looked at whenever the pool has changed."""
        while not condition():
            await self.pool.changed()

    async def worker(self, *, own: Iterable[BaseTool] = (post, look), wait: bool = True, **said: Any) -> Worker:
        config = WorkerConfig(daemons=(URL,), tell=self.told.append, **said)
        made = Worker(config, wires=[self.transport.wire()], own=own, wall=wall)
        if wait:
            await self.nursery.start(made.run)
        else:
            self.nursery.start_soon(made.run)
        return made


@asynccontextmanager
async def place(script: Script = POSTS, *, latency: float = 1.0, lease: float = LEASE) -> AsyncIterator[Place]:
    """A pool; at the end all workers are taken away."""
    MADE.clear()
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            yield Place(nursery, FakePool(script, latency=latency, lease=lease))
            nursery.cancel_scope.cancel()


def wall() -> float:
    return EPOCH + trio.current_time()
