"""What runs do: their tools, and the model's side of it."""

from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from typing import NamedTuple

import trio

from agents.amounts import Limits
from agents.context import ToolContext
from agents.delegate import AgentTool
from agents.messages import ModelRequest
from agents.scripted import Answer, ask, say, turns_taken
from agents.spec import AgentSpec
from agents.tools import Tool, ToolError
from tests.chaos.schedule import RunPlan, Schedule

NAMES = {"asks": "act_if_allowed", "again": "look", "delegates": "help"}


class Doing(NamedTuple):
    """The plans of the runs of one world, and what their tools did: `RUN/NUMBER` for each."""

    plans: Mapping[str, RunPlan]
    deeds: Counter[str]


DOING: ContextVar[Doing] = ContextVar("DOING")
"""Tools are made once, since their schemas take longer than a schedule, and serve the world that calls them."""


async def act(what: int, context: ToolContext) -> str:
    """Acts."""
    doing = DOING.get()
    doing.deeds[f"{context.run}/{what}"] += 1
    tools = doing.plans[context.run].tools
    match tools[what % len(tools)]:
        case "slow":
            await trio.sleep(7)
        case "hangs":
            await trio.sleep_forever()
        case "stubborn":
            with trio.CancelScope(shield=True):
                await trio.sleep(40)
        case "raises":
            raise RuntimeError("a fault of the tool")
        case "error":
            raise ToolError("it did not work")
    return f"did {what}"


async def look(what: int) -> str:
    """Looks at something, as often as one likes."""
    await trio.sleep(5)
    return f"saw {what}"


TOOLS = (
    Tool(act, timeout=20.0),
    Tool(act, name="act_if_allowed", approval="always", expires_in=60.0),
    Tool(look, idempotent=True),
    AgentTool("help", "helper"),
)
HELPER = AgentSpec(name="helper", model="m", limits=Limits(rounds=3), max_tokens=16)


def agent(plan: RunPlan) -> AgentSpec:
    """The agent of a run."""
    limits = Limits(rounds=8, tool_calls=6, tokens=plan.tokens, timeout=400.0)
    return AgentSpec(name=plan.run, model="m", tools=TOOLS, limits=limits, max_tokens=16)


def answer(schedule: Schedule, request: ModelRequest) -> Answer:
    """What the model says: a tool's turn after the other, then the end."""
    first = next((message.content for message in request.messages if message.role == "user"), "")
    plan = next((run for run in schedule.runs if run.run == first), None)
    turns = turns_taken(request.messages)
    if plan is None or turns >= plan.steps or not request.tools:
        return say("one two ")
    name = NAMES.get(plan.tools[turns % len(plan.tools)], "act")
    return ask(name, {"task": "help me"} if name == "help" else {"what": turns}, text="one two ")
