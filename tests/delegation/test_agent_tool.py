"""The tool that is another agent, by itself."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.delegate import AgentTool, lowered
from agents.errors import InvalidLimits
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import BadArguments


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "{}",
        '{"task": ""}',
        '{"task": "  "}',
        '{"task": 3}',
        '{"task": "a", "rounds": 0}',
        '{"task": "a", "rounds": "3"}',
        '{"task": "a", "tokens": 1.5}',
        '{"task": "a", "agent": "admin"}',
        '{"task": "a"}{"task": "b"}',
    ],
)
def test_bad_arguments_start_nothing(arguments: str) -> None:
    """No task, an empty one, limits that are none, and a wish for another agent are refused."""
    with pytest.raises(BadArguments):
        AgentTool("ask_worker", "worker").decode(arguments)


@pytest.mark.parametrize("bounds", [{"depth": 0}, {"width": 0}, {"depth": True}, {"width": 1.5}])
def test_bounds_make_sense(bounds: dict[str, Any]) -> None:
    """A tool that could start nothing, or has no whole number for a bound, is refused, naming the field."""
    with pytest.raises(InvalidLimits) as refused:
        AgentTool("ask_worker", "worker", **bounds)
    assert refused.value.field in bounds


def test_a_call_may_be_made_again() -> None:
    """It is repeatable, since its run is found by its id, and it is a call of the kind that waits for children."""
    made = AgentTool("ask_worker", "worker")
    assert (made.repeatable, made.kind, made.blocking) == (True, "agent", False)


def test_the_lesser_limit_holds() -> None:
    """Field by field, whoever says it; what nobody says is not limited."""
    own, asked = Limits(rounds=3, tokens=500, timeout=9.0), Limits(rounds=5, tokens=100, tool_calls=0)
    assert lowered(own, asked) == Limits(rounds=3, tokens=100, tool_calls=0, timeout=9.0)


async def test_without_a_spawner_nothing_is_started(autojump_clock: trio.testing.MockClock) -> None:
    """Where runs are driven alone, the model is told so and does the work itself."""
    agent = AgentSpec(name="chief", model="m", tools=(AgentTool("ask_worker", "worker"),))
    model = ScriptedModel(in_turn(ask("ask_worker", {"task": "x"}), say("done")))
    result = await run_agent(agent, "x", model=model, journal=MemoryJournal())
    assert (result.answer, result.tool_calls) == ("done", 1)
    assert "No run was started: whoever runs this starts no runs for others." in [m.content for m in result.messages]
