"""Taking runs away: a tool ends its own run, a user cancels one, a person interrupts one.

Runs live in a runtime: started, polled, cancelled and waited for by id. Python's own cancellation works as well: when
the nursery is cancelled, every run is closed properly before it goes.
"""

import trio

from agents.context import ToolContext
from agents.events import ToolFinished
from agents.journal import MemoryJournal
from agents.runtime import LocalRuntime
from agents.scripted import ScriptedModel, ask, in_turn
from agents.spec import AgentSpec
from agents.tools import tool


@tool()
async def give_up(why: str, context: ToolContext) -> str:
    """Ends the run."""
    context.cancel_run()
    return f"gave up: {why}"


pondering = trio.Event()


@tool(read_only=True)
def ponder(context: ToolContext) -> str:
    """Blocks a thread for ten minutes, but heeds a cancellation."""
    trio.from_thread.run_sync(pondering.set)
    return "was told to stop" if context.wait_cancelled(600) else "pondered"


async def main() -> None:
    journal = MemoryJournal()
    quitter = AgentSpec(name="quitter", model="scripted", tools=(give_up,))
    thinker = AgentSpec(name="thinker", model="scripted", tools=(ponder,))

    async with trio.open_nursery() as nursery:
        runtime = LocalRuntime(
            nursery, model=ScriptedModel(in_turn(ask("give_up", {"why": "too hard"}))), journal=journal
        )
        run = await runtime.start(quitter, "Solve it.")
        result = await runtime.wait(run)
        print(f"{result.reason}: {result.message}; the tool said {result.messages[-1].content!r}")
        assert result.reason == "cancelled"
        assert result.messages[-1].content == "gave up: too hard"

    async with trio.open_nursery() as nursery:
        runtime = LocalRuntime(nursery, model=ScriptedModel(in_turn(ask("ponder"))), journal=journal)
        run = await runtime.start(thinker, "Solve it.")
        await pondering.wait()
        assert (await runtime.poll(run)).state == "waiting_tool"
        acknowledged = await runtime.cancel(run, "interrupted")
        result = await runtime.wait(run)
        print(f"{acknowledged.state}, then {result.reason}; the tool {result.messages[-1].content}")
        assert acknowledged.state == "cancelling"
        assert result.reason == "interrupted"
        assert [event.content for event in journal.of(run) if isinstance(event, ToolFinished)] == ["was told to stop"]

        endless = await runtime.start(thinker, "Solve it.")
        nursery.cancel_scope.cancel()
    result = await runtime.wait(endless)
    print(f"{result.reason}: {result.message}")
    assert result.reason == "cancelled"


if __name__ == "__main__":
    trio.run(main)
