"""The backends that the conformance suite runs over, each with a way to see what its server is doing."""

import math
import os
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import httpx2
import pytest
import trio

from orchestrator.backends.base import Backend
from orchestrator.backends.local import LocalBackend
from orchestrator.backends.local_config import LocalConfig, NotInstalled, find_weights
from orchestrator.backends.openai import OpenAIBackend, OpenAIConfig
from orchestrator.backends.sim_server import serve_simulated
from orchestrator.backends.simulated import SimConfig, SimLatency, SimLength, SimProvider, SimulatedBackend

CONTEXT = 2048
SIMULATED = SimConfig(
    seed=1,
    latency=SimLatency(first_token=0.01, input_rate=math.inf, output_rate=500.0, spread=0.0),
    length=SimLength(tokens=400, spread=0.0, context=CONTEXT),
)


@dataclass
class Subject:
    """One backend under test. `busy` asks its server how many calls it is working on; `context` is in tokens."""

    backend: Backend
    busy: Callable[[], Awaitable[int]]
    context: int = CONTEXT


@asynccontextmanager
async def simulated() -> AsyncIterator[Subject]:
    provider = SimProvider(SIMULATED)
    yield Subject(SimulatedBackend("simulated", provider), _in_flight(provider))


@asynccontextmanager
async def openai() -> AsyncIterator[Subject]:
    """The OpenAI adapter, over a socket, against the simulated provider's server."""
    provider = SimProvider(SIMULATED)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        yield Subject(OpenAIBackend(OpenAIConfig(name="openai", base_url=url)), _in_flight(provider))
        nursery.cancel_scope.cancel()


def _in_flight(provider: SimProvider) -> Callable[[], Awaitable[int]]:
    async def busy() -> int:
        await trio.lowlevel.checkpoint()
        return provider.statistics().in_flight

    return busy


@contextmanager
def local_server() -> Iterator[LocalBackend]:
    """A real model server for the whole session, supervised by a trio loop in a thread of its own.

    Without its packages the tests that want it are skipped; where `CI` is set that is a failure.
    """
    try:
        find_weights(LocalConfig())
    except NotInstalled as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(error.message)
    backend, ended = LocalBackend(), threading.Event()
    told: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def supervise() -> None:
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(backend.run)
            told.put(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))

    def run() -> None:
        try:
            trio.run(supervise)
        finally:
            ended.set()
            told.put(None)

    thread = threading.Thread(target=run, name="local model server")
    thread.start()
    stop = told.get()
    try:
        assert stop is not None, "the local model server did not start"
        yield backend
        assert not ended.is_set(), "the local model server ended before the tests did"
    finally:
        if stop is not None and not ended.is_set():
            stop()
        thread.join()


def local(backend: LocalBackend) -> Subject:
    async def busy() -> int:
        server = backend.server()
        async with httpx2.AsyncClient(trust_env=False) as client:
            rows = (await client.get(server.url.join("/slots"), headers=server.headers)).json()
        return sum(1 for row in rows if row["is_processing"])

    return Subject(backend, busy, backend.config.context)
