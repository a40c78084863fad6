"""The backends that the conformance suite runs over, each with a way to see what its server is doing."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import trio

from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimProvider, SimulatedBackend
from orchestrator.backends.simulated.server import serve_simulated

CONTEXT = 2048
SIMULATED = SimConfig(
    seed=1,
    latency=SimLatency(first_token=0.01, input_rate=math.inf, output_rate=500.0, spread=0.0),
    length=SimLength(tokens=400, spread=0.0, context=CONTEXT),
)


@dataclass
class Subject:
    """One backend under test. `busy` asks its server how many calls it is working on; `context` is in tokens.

    `overflow` is the code of a request that is beyond the context.
    """

    backend: Backend
    busy: Callable[[], Awaitable[int]]
    context: int = CONTEXT
    overflow: str = "context_length_exceeded"


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


@asynccontextmanager
async def anthropic() -> AsyncIterator[Subject]:
    """The Anthropic adapter, over a socket, against the simulated provider's server.

    The API has no code of its own for a prompt that is too long.
    """
    provider = SimProvider(SIMULATED)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        backend = AnthropicBackend(AnthropicConfig(name="anthropic", base_url=url))
        yield Subject(backend, _in_flight(provider), overflow="invalid_request_error")
        nursery.cancel_scope.cancel()


def _in_flight(provider: SimProvider) -> Callable[[], Awaitable[int]]:
    async def busy() -> int:
        await trio.lowlevel.checkpoint()
        return provider.statistics().in_flight

    return busy


def local(backend: LocalBackend) -> Subject:
    async def busy() -> int:
        server = backend.server()
        async with httpx2.AsyncClient(trust_env=False) as client:
            rows = (await client.get(server.url.join("/slots"), headers=server.headers)).json()
        return sum(1 for row in rows if row["is_processing"])

    return Subject(backend, busy, backend.config.context)
