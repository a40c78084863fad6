"""The official SDKs, unmodified, and a whole daemon between them and a simulated provider; all of it over sockets."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import anthropic
import openai
import pytest
import trio

from orchestrator.backends.simulated.config import SimConfig, SimLatency, SimLength
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.daemon.daemon import Daemon
from tests.daemon.serving import config, serving

Speaks = Literal["openai", "anthropic"]
T = TypeVar("T")

SDK_LEAVES_GENERATORS = pytest.mark.filterwarnings(
    "ignore:Async generator '(httpx2|httpcore2|openai|anthropic)[.]:ResourceWarning"
)
"""The SDKs stop reading at the end marker, and leave the generators beneath to the collector."""

FAST = SimLatency(first_token=0.0, input_rate=math.inf, output_rate=math.inf, spread=0.0)
SLOW = SimLatency(first_token=0.0, input_rate=math.inf, output_rate=20.0, spread=0.0, chunk_tokens=1)
SHORT = SimLength(tokens=30, spread=0.0)
MODEL = "some-model"
QUESTION = [{"role": "user", "content": "Where does the water go?"}]


@dataclass
class Gateway:
    """A daemon before one provider, and the SDKs' clients for it; async ones are closed with it."""

    daemon: Daemon
    provider: SimProvider
    url: str
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic

    def sync_openai(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": "any", "max_retries": 0, **options})

    def sync_anthropic(self, **options: Any) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.url, **{"api_key": "any", "max_retries": 0, **options})

    def busy(self) -> int:
        """Calls that are in the daemon, waiting or in flight, and at the provider."""
        held = sum(len(owner._open) for owner in self.daemon.owners.by_name.values())
        return held + self.provider.statistics().in_flight


@asynccontextmanager
async def gateway(
    folder: Path,
    speaks: Speaks = "openai",
    sim: SimConfig | None = None,
    *,
    backend: str = "",
    text: str = "",
    key: str = "any",
) -> AsyncGenerator[Gateway, None]:
    """The daemon's one backend speaks `speaks`. `backend` are lines of its table, `text` what else is configured."""
    provider = SimProvider(sim or SimConfig(latency=FAST, length=SHORT))
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        upstream: str = await nursery.start(serve_simulated, provider)
        lines = f'[backends.up]\nkind = "{speaks}"\nbase_url = "{upstream}"\n{backend}\n'
        if speaks == "anthropic" and "api_key" not in backend:
            lines += 'api_key_file = "key"\n'
            (folder / "key").write_text("upstream-key")
        served = await stack.enter_async_context(serving(_configured(folder, text + "\n" + lines)))
        options: dict[str, Any] = {"api_key": key, "max_retries": 0}
        async_openai = openai.AsyncOpenAI(base_url=f"{served.url}/v1", **options)
        async_anthropic = anthropic.AsyncAnthropic(base_url=served.url, **options)
        await stack.enter_async_context(async_openai)
        await stack.enter_async_context(async_anthropic)
        yield Gateway(served.daemon, provider, served.url, async_openai, async_anthropic)
        await async_openai.close()
        await async_anthropic.close()
        nursery.cancel_scope.cancel()


def _configured(folder: Path, text: str) -> Any:
    return config(folder, text.replace('"key"', f'"{folder / "key"}"'))


async def in_thread(work: Callable[[], T]) -> T:
    """A synchronous client's work, beside the daemon's loop."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def weather_tool() -> dict[str, Any]:
    """A function as OpenAI's SDK takes it."""
    return {
        "type": "function",
        "function": {"name": "weather", "description": "The weather of a city.", "parameters": WEATHER_SCHEMA},
    }


WEATHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel."""
