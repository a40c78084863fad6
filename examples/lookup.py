"""An agent that looks something up, fails, and tries another key: a failing tool is an observation, not the end.

No model server is needed: the model is a script that answers from the history.
"""

import trio

from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.messages import Message
from agents.scripted import ScriptedModel, ask, say
from agents.spec import AgentSpec
from agents.tools import tool

CAPITALS = {"france": "Paris", "peru": "Lima"}


@tool(read_only=True)
async def capital(country: str) -> str:
    """Names a country's capital.

    Args:
        country: its English name, in small letters.
    """
    return CAPITALS[country]


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    last = messages[-1]
    if last.role == "user":
        return ask("capital", {"country": "Frankreich"})
    if "KeyError" in last.content:
        return ask("capital", {"country": "france"})
    return say(f"The capital is {last.content}.")


async def main() -> None:
    agent = AgentSpec(name="geographer", model="scripted", tools=(capital,))
    journal = MemoryJournal()
    result = await run_agent(agent, "What is the capital of Frankreich?", model=ScriptedModel(script), journal=journal)

    for message in result.messages:
        calls = ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
        print(f"{message.role:>9}: {message.content or calls}")
    print(f"{result.reason}: {result.rounds} rounds, {result.tool_calls} tool calls, {len(journal)} events")

    assert result.ok
    assert result.answer == "The capital is Paris."
    assert result.tool_calls == 2


if __name__ == "__main__":
    trio.run(main)
