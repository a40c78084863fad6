"""How runs fail: unknown and failing tools, bad arguments, an empty answer, a model client that raises.

A tool's failure is an observation for the model, unless the agent says that it ends the run.
"""

from typing import Literal

import trio

from agents.errors import Throttled, Unavailable
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.result import RunResult
from agents.scripted import Answer, ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool


@tool()
async def save(path: str, lines: int) -> str:
    """Saves a file."""
    raise OSError(f"no space left for {lines} lines in {path}")


async def run(*answers: Answer, on_tool_error: Literal["observe", "stop"] = "observe") -> RunResult:
    agent = AgentSpec(name="clerk", model="scripted", tools=(save,), on_tool_error=on_tool_error)
    result = await run_agent(agent, "Save it.", model=ScriptedModel(in_turn(*answers)), journal=MemoryJournal())
    told = [message.content for message in result.messages if message.role == "tool"]
    print(f"{result.reason:<14} next: {result.next:<6} {result.message or told}")
    return result


async def main() -> None:
    wrong = {
        "unknown tool": ask("shred", {"path": "a"}),
        "bad arguments": ask("save", {"path": "a", "lines": "3"}),
        "failing tool": ask("save", {"path": "a", "lines": 3}),
    }
    for answer in wrong.values():
        result = await run(answer, say("I could not save it."))
        assert (result.reason, result.rounds) == ("final_answer", 2)
        result = await run(answer, on_tool_error="stop")
        assert (result.reason, result.rounds) == ("tool_error", 1)

    result = await run(say(""))
    assert result.reason == "invalid_action"

    result = await run(Unavailable("no route to the model"))
    assert (result.reason, result.rounds, result.next) == ("planner_error", 0, "retry")

    result = await run(Throttled("the provider said 429, again and again"))
    assert result.reason == "overloaded"


if __name__ == "__main__":
    trio.run(main)
