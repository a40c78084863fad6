"""Forty agents on one budget: they spend it nearly to its end, and never a token more.

Each model call reserves an upper bound before it goes out and settles what it really used. An agent that finds only
other agents' reservations in its way waits for a settlement instead of giving up.
"""

import trio

from agents.amounts import Limits
from agents.budget import Scope
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.result import RunResult
from agents.scripted import ScriptedModel, ask, in_turn
from agents.spec import AgentSpec
from agents.tools import tool

BUDGET = 300_000


@tool(read_only=True)
async def read_on() -> str:
    """Reads the next page."""
    return "and so it went on. " * 10


async def main() -> None:
    job = Scope("job", Limits(tokens=BUDGET))
    agent = AgentSpec(name="reader", model="scripted", tools=(read_on,), max_tokens=1_000)
    model = ScriptedModel(in_turn(ask("read_on", text="Interesting.")), latency=0.001)
    results: list[RunResult] = []

    async def read() -> None:
        results.append(await run_agent(agent, "Read it all.", model=model, journal=MemoryJournal(), budget=job))

    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(read)

    rounds = sum(result.rounds for result in results)
    print(f"{len(results)} agents, {rounds} rounds, {job.used.tokens:,} of {BUDGET:,} tokens")
    print(f"all stopped by {results[0].limit} of the {results[0].scope}")
    assert {(result.reason.value, result.scope) for result in results} == {("token_budget_exceeded", "job")}
    assert 0.9 * BUDGET < job.used.tokens <= BUDGET
    assert job.reserved.tokens == 0


if __name__ == "__main__":
    trio.run(main)
