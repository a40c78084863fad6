"""What each limit does to a run: rounds, tool calls, time, tokens, money; and limits that make no sense.

A run that meets a limit is stopped, not failed: it says which limit of which scope, what was used, and its last words.
"""

import trio

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.money import Price, PriceList
from agents.result import RunResult
from agents.scripted import Answer, ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool

PRICES = PriceList({"scripted": Price(input=3_000_000, output=15_000_000)})  # 3 and 15 dollars per million tokens


@tool(read_only=True)
async def search(query: str) -> str:
    """Searches the library."""
    return f"three pages about {query}"


@tool()
async def print_catalogue() -> str:
    """Prints the whole catalogue, which takes a while."""
    await trio.sleep(60)
    return "printed"


async def run(limits: Limits, *answers: Answer) -> RunResult:
    agent = AgentSpec(name="librarian", model="scripted", tools=(search, print_catalogue), limits=limits)
    result = await run_agent(
        agent, "Find it.", model=ScriptedModel(in_turn(*answers)), journal=MemoryJournal(), prices=PRICES
    )
    print(
        f"{result.reason:<21} rounds {result.rounds}, tool calls {result.tool_calls}"
        f"{', ' if result.message else ''}{result.message}"
    )
    return result


async def main() -> None:
    asking = ask("search", {"query": "headraces"}, text="Let me look.")

    result = await run(Limits(rounds=3), asking)
    assert (result.rounds, result.tool_calls, result.reason) == (3, 3, "max_rounds")
    assert (result.partial, result.next) == ("Let me look.", "raise_limit")

    result = await run(Limits(rounds=5, tool_calls=2), asking, say("Here it is."))
    assert (result.rounds, result.tool_calls, result.reason) == (2, 1, "final_answer")

    result = await run(Limits(tool_calls=2), asking)
    assert (result.rounds, result.tool_calls, result.reason) == (3, 2, "max_tool_calls")
    assert result.messages[-1].content.startswith("Not run")

    result = await run(Limits(timeout=0.05), ask("print_catalogue"))
    assert (result.rounds, result.tool_calls, result.reason) == (1, 1, "timeout")
    assert len(result.unknown_effects) == 1

    result = await run(Limits(tokens=2_000), asking)
    assert (result.reason, result.limit) == ("token_budget_exceeded", "tokens")

    result = await run(Limits(micro_dollars=10_000), asking)
    assert result.reason == "cost_budget_exceeded"
    assert result.micro_dollars is not None
    assert result.micro_dollars <= 10_000

    refused: list[str] = []
    for nonsense in ({"rounds": 0}, {"tool_calls": -1}, {"timeout": float("nan")}):
        try:
            Limits(**nonsense)
        except InvalidLimits as error:
            print(f"refused: {error}")
            refused.append(error.field)
    assert refused == ["rounds", "tool_calls", "timeout"]
    assert Limits(tool_calls=0).tool_calls == 0


if __name__ == "__main__":
    trio.run(main)
