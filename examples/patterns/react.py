"""ReAct: the model thinks aloud, asks for tools, reads what they say, and goes on until it can answer.

That is the control loop itself: an agent with tools needs no further code. Tool calls of one answer run together.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys

import trio
from _model import model_for

from agents.amounts import Limits
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.messages import Message
from agents.scripted import ask, ask_all, say, turns_taken
from agents.spec import AgentSpec
from agents.tools import tool

HEIGHTS = {"Galdhøpiggen": 2469, "Ben Nevis": 1345}


@tool(read_only=True)
async def height(mountain: str) -> str:
    """Tells how high a mountain is, in metres.

    Args:
        mountain: its name.
    """
    known = HEIGHTS.get(mountain)
    return f"{known}" if known else f"No mountain {mountain!r} here; there are {' and '.join(HEIGHTS)}."


@tool(read_only=True)
async def subtract(minuend: int, subtrahend: int) -> str:
    """Subtracts the second number from the first."""
    return f"{minuend - subtrahend}"


def shown(one: str, other: str, heights: tuple[int, int]) -> tuple[Message, ...]:
    """A conversation as it ought to be."""
    difference = heights[0] - heights[1]
    return (
        Message("user", f"How much higher is {one} than {other}?"),
        ask_all(("height", {"mountain": one}, "one"), ("height", {"mountain": other}, "other")),
        Message("tool", f"{heights[0]}", tool_call_id="one"),
        Message("tool", f"{heights[1]}", tool_call_id="other"),
        ask("subtract", {"minuend": heights[0], "subtrahend": heights[1]}, id="both"),
        Message("tool", f"{difference}", tool_call_id="both"),
        say(f"{one} is {difference} metres higher."),
    )


DEMONSTRATION = (*shown("Snowdon", "Ben Lomond", (1085, 974)), *shown("Kebnekaise", "Scafell Pike", (2097, 978)))
"""What a run begins with: a large model needs no such thing, a very small one learns from it how tools are called."""

GUIDE = AgentSpec(
    name="guide",
    model="any",
    system="Say in one sentence what you need to know next, then ask a tool for it. Answer once you know.",
    tools=(height, subtract),
    demonstration=DEMONSTRATION,
    limits=Limits(rounds=6, tool_calls=8),
    max_tokens=200,
    temperature=0,
)


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    heard = [message.content for message in messages[1 + len(DEMONSTRATION) :] if message.role == "tool"]
    match turns_taken(messages):
        case 0:
            wanted = ("height", {"mountain": "Galdhøpiggen"}), ("height", {"mountain": "Nevis"})
            return ask_all(*wanted, text="I need both heights.")
        case 1:
            return ask("height", {"mountain": "Ben Nevis"}, text="The second has another name here.")
        case 2:
            return ask("subtract", {"minuend": int(heard[0]), "subtrahend": int(heard[2])}, text="Now the difference.")
        case _:
            return say(f"Galdhøpiggen is {heard[-1]} metres higher.")


async def main(local: bool) -> None:
    async with model_for(script, local=local) as model:
        task = "How much higher is Galdhøpiggen than Ben Nevis?"
        result = await run_agent(GUIDE, task, model=model, journal=MemoryJournal())

    for message in result.messages[2 + len(DEMONSTRATION) :]:
        calls = "; ".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        print(f"{message.role:>9}: {message.content}{' -> ' if calls else ''}{calls}")
    print(f"{result.reason}: {result.rounds} rounds, {result.tool_calls} tool calls")
    if not local:
        assert result.answer == "Galdhøpiggen is 1124 metres higher."
        assert (result.rounds, result.tool_calls) == (4, 4)


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
