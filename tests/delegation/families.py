"""Agents that give work to each other, and a model with one slot."""

import math
from typing import Any

import trio

from agents.amounts import Limits
from agents.delegate import AgentTool
from agents.events import Event, RunEnded, ToolFinished, ToolStarted
from agents.messages import Message, ModelReply, ModelRequest
from agents.port import Priority, Receipt
from agents.scripted import Script, ScriptedModel, ask, ask_all, say, turns_taken
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.catalogue import Catalogue, Target

EFFECTS: list[str] = []
"""Keys of the calls by which a worker did something outside; a test clears it."""


@tool(read_only=True)
async def look(where: str) -> str:
    """Looks for a minute."""
    await trio.sleep(60)
    return f"seen {where}"


def give(name: str, agent: str, **more: Any) -> AgentTool:
    return AgentTool(name, agent, **more)


def catalogue(
    *, width: int = 16, depth: int = 3, limits: Limits | None = None, worker: Limits | None = None, **more: Any
) -> Catalogue:
    """A chief that asks workers, a worker that looks, and a digger that asks diggers."""
    specs = (
        AgentSpec(
            name="chief",
            model="scripted",
            system="chief",
            tools=(give("ask_worker", "worker", width=width, depth=depth, **more), give("ask_nobody", "nobody")),
            limits=limits or Limits(rounds=50, tokens=100_000),
        ),
        AgentSpec(name="worker", model="scripted", system="worker", tools=(look,), limits=worker or Limits(rounds=5)),
        AgentSpec(
            name="digger", model="scripted", system="digger", tools=(give("dig", "digger", depth=depth, width=width),)
        ),
    )
    models = {"scripted": (Target("sim", "scripted"),)}
    return Catalogue(models=models, default_model="scripted", agents={spec.name: spec for spec in specs})


def script(*, workers: int = 1) -> Script:
    """The chief asks so many workers at once and repeats what they say; a digger digs as deep as it is told."""

    def answer(messages: tuple[Message, ...]) -> Message:
        who, task = messages[0].content, messages[1].content
        results = [message.content for message in messages if message.role == "tool"]
        if who == "worker":
            return say(f"{task}: {results[-1]}") if results else ask("look", {"where": task})
        if who == "digger":
            down, _, most = task.partition("/")
            if results:
                return say(f"{down}<{results[0]}>")
            return say("bottom") if down == most else ask("dig", {"task": f"{int(down) + 1}/{most}"})
        if turns_taken(messages):
            return say(" | ".join(results))
        return ask_all(*(("ask_worker", {"task": f"part {n}"}, f"c{n}") for n in range(workers)))

    return answer


class OneSlot:
    """A model of a backend with concurrency 1. `most` is how many calls were ever under way at once."""

    def __init__(self, script: Script) -> None:
        self._model = ScriptedModel(script, latency=1.0)
        self._slot = trio.CapacityLimiter(1)
        self.calls = 0

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        async with self._slot:
            self.calls += 1
            return await self._model.call(request, deadline=deadline)


def ends(events: list[Event]) -> list[RunEnded]:
    return [event for event in events if isinstance(event, RunEnded)]


def finished(events: list[Event]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


def started(events: list[Event]) -> list[ToolStarted]:
    return [event for event in events if isinstance(event, ToolStarted)]
