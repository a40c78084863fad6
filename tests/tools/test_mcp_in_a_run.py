"""Tools of MCP servers in whole runs: what the run's log and the model are told."""

import os
import signal

import trio

from agents.events import ToolFinished, ToolRefused
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.loop import run_agent
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from tests.tools.mcp_servers import Watch, serving, stdio, until


async def test_a_run_whose_server_is_killed_goes_on_with_an_unknown_effect() -> None:
    """The model is told that nobody knows, bad arguments never reach the server, and the run ends by itself."""
    journal = MemoryJournal()
    async with serving(stdio()) as served, Watch() as watch, trio.open_nursery() as nursery:
        pid = await served.pid()
        model = ScriptedModel(
            in_turn(ask("t__add", {"a": "1"}), ask("t__watched", watch.arguments), ask("t__add", {"a": 1}), say("done"))
        )
        agent = AgentSpec(name="a", model="m", tools=served.servers.tools("t"))
        results = []

        async def run() -> None:
            results.append(await run_agent(agent, "go", model=model, journal=journal))

        nursery.start_soon(run)
        await watch.next_call()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bool(results))
    refused = [event for event in journal.events if isinstance(event, ToolRefused)]
    assert "'1' is not of type 'integer'" in refused[0].content
    finished = [event for event in journal.events if isinstance(event, ToolFinished)]
    assert [event.outcome for event in finished] == ["unknown_effect", "ok"]
    assert "look at the state of things before repeating it" in finished[0].content
    assert (results[0].reason, results[0].answer) == (StopReason.FINAL_ANSWER, "done")


async def test_a_run_that_is_cancelled_tells_the_server() -> None:
    """The server's task ends with the run, whose log says that the effect is unknown."""
    journal = MemoryJournal()
    async with serving(stdio()) as served, Watch() as watch, trio.open_nursery() as nursery:
        model = ScriptedModel(in_turn(ask("t__watched", watch.arguments), say("done")))
        agent = AgentSpec(name="a", model="m", tools=served.servers.tools("t"))

        async def run() -> None:
            await run_agent(agent, "go", model=model, journal=journal)

        nursery.start_soon(run)
        call = await watch.next_call()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await call.says() == "cancelled"
    finished = [event for event in journal.events if isinstance(event, ToolFinished)]
    assert [event.outcome for event in finished] == ["unknown_effect"]
