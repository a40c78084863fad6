"""The unmodified SDKs as clients of the simulated provider over HTTP, on trio and in threads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest

from orchestrator.backends.simulated.backend import SimConfig, SimProvider
from orchestrator.backends.simulated.server import anthropic_base
from tests.backends.sim_client import FAST, served

LEAVES_GENERATORS = pytest.mark.filterwarnings(
    "ignore:Async generator '(httpx2|httpcore2|openai|anthropic)[.]:ResourceWarning"
)
"""OpenAI's SDK stops to read at a stream's end marker, and leaves the generators below it to be collected."""

KEY = "test-key"
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": WEATHER}}
CHAT: Any = {"model": "sim", "messages": [{"role": "user", "content": "What do mills grind?"}]}
TURN: Any = {"model": "sim", "max_tokens": 200, "messages": [{"role": "user", "content": "What do mills grind?"}]}
MESSAGES_TOOL: Any = {"name": "weather", "description": "d", "input_schema": WEATHER}
RESPONSE: Any = {"model": "sim", "input": "What do mills grind?"}
RESPONSES_TOOL: Any = {"type": "function", "name": "weather", "description": "d", "parameters": WEATHER, "strict": True}


def sim(**more: Any) -> SimConfig:
    """A provider without delays."""
    return SimConfig(latency=FAST, **more)


@asynccontextmanager
async def openai_client(
    config: SimConfig | None = None, retries: int = 0
) -> AsyncIterator[tuple[openai.AsyncOpenAI, SimProvider]]:
    """OpenAI's client with its default transport, and the provider that it goes to."""
    async with (
        served(config) as (provider, http),
        openai.AsyncOpenAI(base_url=str(http.base_url), api_key=KEY, max_retries=retries) as client,
    ):
        yield client, provider


@asynccontextmanager
async def anthropic_client(
    config: SimConfig | None = None, retries: int = 0
) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, SimProvider]]:
    """Anthropic's client with its default transport, and the provider that it goes to."""
    async with served(config) as (provider, http):
        base = anthropic_base(str(http.base_url).rstrip("/"))
        async with anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=retries) as client:
            yield client, provider
