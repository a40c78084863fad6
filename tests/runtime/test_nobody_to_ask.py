"""Where nobody can be asked, an agent on whose tools people decide is refused before anything exists."""

import pytest
import trio

from agents.journal import MemoryJournal
from agents.person import PersonTool
from agents.requests import NobodyToAsk
from agents.runtime import LocalRuntime, UnknownRun
from agents.scripted import ScriptedModel, in_turn, say
from agents.spec import AgentSpec
from agents.tools import BaseTool, Tool
from orchestrator.backend_choice import BackendChoice
from orchestrator.cli.exits import USAGE
from orchestrator.cli.run_embedded import EmbeddedRun, run_embedded


async def book(flight: str) -> str:
    """Books it."""
    raise AssertionError(flight)


DECIDED = [Tool(book, approval="always"), Tool(book, approval='flight == "LH1"'), PersonTool("book")]


@pytest.mark.parametrize("tool", DECIDED, ids=["always", "rule", "question"])
async def test_the_local_runtime_refuses_it(tool: BaseTool) -> None:
    """The error names the tool, the journal stays empty, and the id unknown."""
    journal = MemoryJournal()
    async with trio.open_nursery() as nursery:
        runtime = LocalRuntime(nursery, model=ScriptedModel(in_turn(say("hi"))), journal=journal)
        with pytest.raises(NobodyToAsk, match="tool book of agent clerk"):
            await runtime.start(AgentSpec(name="clerk", model="m", tools=(tool,)), "x", run="mine")
        with pytest.raises(UnknownRun):
            await runtime.poll("mine")
    assert len(journal) == 0


@pytest.mark.parametrize("tool", DECIDED, ids=["always", "rule", "question"])
def test_an_embedded_run_refuses_it(tool: BaseTool, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line it is a mistake of usage, and says where such a run belongs."""
    agent = AgentSpec(name="clerk", model="simulated", tools=(tool,))
    code = run_embedded(EmbeddedRun(backend=BackendChoice(kind="simulated"), agent=agent, task="x"))
    said = capsys.readouterr()
    assert code == USAGE
    assert "run it through a daemon" in said.err
    assert said.out == ""
