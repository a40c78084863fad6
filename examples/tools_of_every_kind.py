"""An agent with a tool of each kind: coroutine, thread, command, MCP server, another agent, a person; one needs leave.

Agents and tools come from `travel/headrace.toml`, which a daemon could serve as it is. Here one run service stands for
the daemon, a script for the model, and a task for the person who answers and approves: while the run waits for them it
is parked and holds nothing. The calls of one answer run at the same time.
"""

import datetime
import os
import sys
from pathlib import Path

import trio
from msgspec.structs import replace

from agents.events import ApprovalDecided, Event, InputGiven, ToolFinished, decode
from agents.messages import Message
from agents.port import Flow, ModelPort, Priority
from agents.scripted import ScriptedModel, ask, ask_all, say, turns_taken
from orchestrator.config.catalogue import build_catalogue
from orchestrator.config.decode import load
from orchestrator.config.mcp_servers import mcp_servers
from orchestrator.runs.service import RunService
from orchestrator.tools.mcp import McpServers
from orchestrator.views.approvals import ApprovalView
from orchestrator.views.runs import AgentChoice, RunRequest

CONFIG = Path(__file__).parent / "travel" / "headrace.toml"


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    if messages[0].content.startswith("You know what there is to see"):
        return say("the fortress by the water")
    turn = turns_taken(messages)
    heard = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
    if turn == 0:
        return ask_all(
            ("rooms", {"city": "Oslo"}, "rooms"),
            ("in_euros", {"amount": 2100 * 4, "money": "NOK"}, "euros"),
            ("nights", {"arrival": "2027-06-01", "departure": "2027-06-05"}, "nights"),
            ("weather__forecast", {"city": "Oslo", "days": 4}, "weather"),
            ("ask_guide", {"task": "What is there to see in Oslo?"}, "guide"),
        )
    if turn == 1:
        question = f"It will be {heard['weather'].partition(': ')[2]}. Which room?"
        return ask("ask_traveller", {"question": question, "options": ["Fjord View", "Station"]}, id="room")
    if turn == 2:
        stay = {"room": heard["room"], "nights": int(heard["nights"]), "euros": int(heard["euros"])}
        return ask("book", stay, id="book")
    return say(f"{heard['book']}. Go and see {heard['guide']}.")


class Scripted:
    """Gives every run the scripted model."""

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return ScriptedModel(script)

    def ended(self, flow: Flow) -> None:
        pass


async def person(service: RunService) -> None:
    """Somebody at the desk: takes the first of the answers there are, and approves what is not too dear."""
    done: set[str] = set()
    async for now in service.approvals.watch():
        for asked in now.approvals:
            if asked.id not in done:
                done.add(asked.id)
                await decide(service, asked)


async def decide(service: RunService, asked: ApprovalView) -> None:
    if asked.kind == "input":
        print(f"  ? {asked.question} {' / '.join(asked.options)}")
        await service.approvals.answer(asked.id, asked.options[0], by="ann")
    else:
        print(f"  ! {asked.tool} {asked.arguments} asks for leave, since {asked.why}")
        await service.approvals.decide(asked.id, "approved", by="ann", digest=asked.digest)


async def main() -> None:
    config = load(CONFIG)
    catalogue = build_catalogue(config, datetime.date.today())
    servers = McpServers(mcp_servers(config))
    catalogue = replace(catalogue, source=servers)
    async with trio.open_nursery() as nursery:
        await nursery.start(servers.run)
        service = RunService(nursery, models=Scripted(), catalogue=lambda: catalogue)
        nursery.start_soon(person, service)

        request = RunRequest(task="Four nights in Oslo from June 1st, please.", who=AgentChoice(agent="clerk"))
        run = (await service.start(request)).run
        detail = await service.wait(run)
        events: list[Event] = [decode(data) async for _, data in service.events(run, follow=False)]
        nursery.cancel_scope.cancel()

    kinds = {tool.name: tool.kind for tool in catalogue.agent(AgentChoice(agent="clerk")).tools}
    finished = sorted((event for event in events if isinstance(event, ToolFinished)), key=lambda e: (e.step, e.index))
    for event in finished:
        print(f"{kinds[event.name]:>9}  {event.name}: {event.content.strip()}")
    print(f"{detail.reason}: {detail.answer}")

    assert {kinds[event.name] for event in finished} == {"function", "thread", "command", "mcp", "agent", "person"}
    assert all(event.outcome == "ok" for event in finished)
    assert [event.by for event in events if isinstance(event, InputGiven | ApprovalDecided)] == ["ann", "ann"]
    assert detail.answer == "booked: Fjord View, 4 nights, 700 euros. Go and see the fortress by the water."


if __name__ == "__main__":
    # commands and servers are started with this Python, as in an activated environment
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    trio.run(main)
