"""Agents that ask people, daemons that come and go while they wait, and what there is to see of it."""

from collections import Counter

import trio
from msgspec.structs import replace

from agents.amounts import Limits
from agents.events import Event, RunWaiting
from agents.person import PersonTool
from agents.scripted import Script, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.runs.service import RunService
from orchestrator.views.approvals import ApprovalView
from orchestrator.views.runs import AgentChoice
from tests.runs.running import CATALOGUE

TERMINAL = {"completed", "stopped", "failed", "cancelled", "expired"}
CLERK = AgentChoice(agent="clerk")


class Desk:
    """An agent whose tools people decide on; `sent` counts what it really did."""

    def __init__(self, *, expires_in: float | None = None, limits: Limits | None = None) -> None:
        self.sent: Counter[str] = Counter()
        desk = self

        @tool(approval="always", expires_in=expires_in)
        async def send(to: str) -> str:
            """Sends a letter."""
            desk.sent[to] += 1
            return f"sent to {to}"

        @tool(read_only=True)
        async def look(what: str) -> str:
            """Looks something up for a minute."""
            await trio.sleep(60)
            return f"seen {what}"

        self.tools = (send, look, PersonTool("ask_person", expires_in=expires_in))
        spec = AgentSpec(name="clerk", model="scripted", tools=self.tools, limits=limits or Limits(rounds=9))
        self.catalogue = replace(CATALOGUE, agents={**CATALOGUE.agents, "clerk": spec})


ONE: Script = in_turn(ask("send", {"to": "anna"}), say("done"))
TWO: Script = in_turn(ask_all(("send", {"to": "anna"}), ("send", {"to": "bert"})), say("done"))
MIXED: Script = in_turn(ask_all(("send", {"to": "anna"}), ("look", {"what": "x"})), say("done"))
QUESTION: Script = in_turn(ask("ask_person", {"question": "Which river?", "options": ["Glomma", "Otra"]}), say("done"))


async def open_requests(service: RunService) -> tuple[ApprovalView, ...]:
    return (await service.approvals.list_open()).approvals


async def until_asked(service: RunService, count: int = 1) -> tuple[ApprovalView, ...]:
    """The open requests, when there are so many and all that asked them wait for nothing else."""
    while True:
        found = await open_requests(service)
        states = await service.states()
        if len(found) == count and not service.statistics().live:
            assert set(states) <= {"waiting_approval", "waiting_input"} | TERMINAL
            return found
        await trio.sleep(0.01)


def waits(events: list[Event]) -> int:
    return sum(isinstance(event, RunWaiting) for event in events)
