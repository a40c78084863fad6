"""The agents of the benchmark of durable runs: their tool, their model that answers at once, its owner."""

from typing import Final

import structlog
import trio

from agents.messages import Message, ModelReply, ModelRequest, ToolCall, Usage
from agents.spec import AgentSpec
from agents.tools import Tool
from bench.load import AMPLE, IN_FLIGHT, InstantBackend
from orchestrator.backends.base import Connection, Progress
from orchestrator.catalogue import Catalogue, Target
from orchestrator.instruments.log import LogHook
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.router import Router
from orchestrator.transitions import Hook
from orchestrator.views.runs import AgentChoice

CALLS: Final = 4
"""Model calls of one agent: all but the last ask for a tool."""


class AskingBackend(InstantBackend):
    """Answers at once: asks for a tool until the transcript has `calls - 1` results of it, then says so.

    The call after `holds` results of the tool is never answered, and counted in `held`.
    """

    name = "asking"

    def __init__(self, calls: int = CALLS, holds: int | None = None) -> None:
        super().__init__()
        self.calls = calls
        self.holds = holds
        self.held = 0
        self._expected = 0
        self._all_held = trio.Event()

    def connect(self) -> Connection:
        return _AskingConnection(self)

    async def hold(self) -> None:
        """Never returns."""
        self.held += 1
        if self.held == self._expected:
            self._all_held.set()
        await trio.sleep_forever()

    async def until_held(self, calls: int) -> None:
        """Waits until so many calls have come that are never answered."""
        self._expected = calls
        if self.held < calls:
            await self._all_held.wait()


class _AskingConnection:
    def __init__(self, backend: AskingBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        progress.connected()
        progress.written()
        results = sum(message.role == "tool" for message in request.messages)
        if results == self._backend.holds:
            await self._backend.hold()
        progress.headers(())
        usage = Usage(input=200 + 40 * results, output=20)
        if results < self._backend.calls - 1:
            asked = (ToolCall(f"call-{results}", "look", f'{{"place":"shelf {results}"}}'),)
            return ModelReply(Message("assistant", "I look at the next shelf.", tool_calls=asked), "tool_calls", usage)
        return ModelReply(Message("assistant", "The book is on the last shelf."), "stop", usage)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def look(place: str) -> str:
    """Says what is in a place.

    Args:
        place: where to look
    """
    await trio.lowlevel.checkpoint()
    return f"On {place} there are twelve books, and none of them is the one that is looked for."


AGENT: Final = AgentSpec(
    name="seeker",
    model="instant",
    system="You look for a book. Look at one shelf after the other, and say at the end where it is.",
    tools=(Tool(look, read_only=True),),
    max_tokens=256,
)
CATALOGUE: Final = Catalogue(
    models={"instant": (Target("bench", "instant"),)}, default_model="instant", agents={AGENT.name: AGENT}
)
SEEKER: Final = AgentChoice(agent=AGENT.name)
TASK: Final = "Where is the book about rivers?"


def make_owner(backend: InstantBackend, *hooks: Hook, concurrency: int = IN_FLIGHT) -> Owner:
    """An owner as a daemon would run it, with limits that are counted and never reached."""
    limits = (LimitSpec("requests", AMPLE), LimitSpec("total_tokens", AMPLE))
    endpoint = Endpoint("one", backend, limits=limits, concurrency=ConcurrencyConfig(fixed=concurrency))
    metrics = PrometheusHook()
    return Owner(
        OwnerConfig("bench"),
        [endpoint],
        hooks=[metrics, LogHook(structlog.get_logger()), *hooks],
        on_turn=metrics.on_turn,
    )


def router(owner: Owner) -> Router:
    """The way to it that a daemon's runs take."""
    return Router({"bench": owner}, lambda: CATALOGUE)
