"""What the patterns have in common: which model they talk to, and one run from a task to its answer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec

from agents.budget import Scope
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.messages import Message
from agents.port import Flow, ModelPort
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice
from orchestrator.backends.simulated.script import Script
from orchestrator.embedded import EmbeddedConfig, open_embedded


class NoAnswer(Exception):
    """A run did not complete; the message says why."""


def only(shape: Any) -> dict[str, Any]:
    """A response format that lets a server's model write nothing but JSON of this type.

    Not every server heeds it, so what comes back is read strictly all the same.
    """
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": msgspec.json.schema(shape)}}


@asynccontextmanager
async def model_for(script: Script, *, local: bool) -> AsyncGenerator[ModelPort, None]:
    """A backend behind an owner of its own: the simulated one that says what the script does, or with `local` the
    small model of this machine, which says what it likes.
    """
    kind: Literal["local", "simulated"] = "local" if local else "simulated"
    async with open_embedded(EmbeddedConfig(backend=BackendChoice(kind=kind), script=script)) as embedded:
        yield embedded.port(Flow(job="pattern"))


async def answer(
    model: ModelPort, agent: AgentSpec, task: str | tuple[Message, ...], *, budget: Scope | None = None
) -> str:
    """One run's answer. Raises `NoAnswer`."""
    result = await run_agent(agent, task, model=model, journal=MemoryJournal(), budget=budget)
    if not result.ok:
        raise NoAnswer(f"{agent.name}: {result.reason}: {result.message}")
    return result.answer.strip()
