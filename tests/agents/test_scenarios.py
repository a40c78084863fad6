"""The reference scenarios: what a run does, and why it ends."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.context import ToolContext
from agents.errors import InvalidLimits, Unavailable
from agents.events import ToolFinished, ToolRefused, ToolStarted
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.loop import run_agent
from agents.messages import Message
from agents.result import RunResult
from agents.scripted import Script, ScriptedModel, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import InvalidTool, tool
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole, assert_whole

CAPITALS = {"france": "Paris"}


@tool(read_only=True)
async def lookup(key: str) -> str:
    """Looks a key up."""
    return CAPITALS[key]


@tool(read_only=True)
async def search(query: str) -> str:
    """Searches."""
    return f"three pages about {query}"


@tool()
async def slow() -> str:
    """Takes a minute."""
    await trio.sleep(60)
    return "done"


@tool()
async def stop_everything(context: ToolContext) -> str:
    """Ends the run."""
    context.cancel_run()
    await trio.lowlevel.checkpoint()
    return "stopped"


@tool()
async def broken() -> str:
    """Always fails."""
    raise OSError("disk on fire")


TOOLS = (lookup, search, slow, stop_everything, broken)


async def run(script: Script, *, latency: float = 0.0, **spec: Any) -> tuple[RunResult, MemoryJournal]:
    """One run of an agent with every tool, checked for wholeness."""
    journal, budget = MemoryJournal(), Scope("job")
    agent = AgentSpec(**{"name": "agent", "model": "scripted", "tools": TOOLS, **spec})
    result = await run_agent(
        agent, "the task", model=ScriptedModel(script, latency=latency), journal=journal, budget=budget
    )
    assert_whole(journal.events)
    assert_transcript_whole(result)
    assert_nothing_reserved(budget)
    assert (budget.used.rounds, budget.used.tool_calls) == (result.rounds, result.tool_calls)
    return result, journal


def counts(result: RunResult) -> tuple[int, int, str]:
    return (result.rounds, result.tool_calls, result.reason.value)


async def test_a_failed_lookup_is_an_observation() -> None:
    """Lookup fails, the model tries another key: two tool calls, then the answer."""

    def script(messages: tuple[Message, ...]) -> Message:
        last = messages[-1]
        if last.role == "user":
            return ask("lookup", {"key": "frankreich"})
        return ask("lookup", {"key": "france"}) if "KeyError" in last.content else say(f"It is {last.content}.")

    result, _ = await run(script)
    assert counts(result) == (3, 2, "final_answer")
    assert (result.answer, result.partial, result.state) == ("It is Paris.", "", State.COMPLETED)
    assert result.messages[2].content == "lookup failed: KeyError: 'frankreich'"


async def test_a_model_that_only_asks_for_tools_ends_at_its_rounds() -> None:
    """Three rounds allowed: three tool calls, then max_rounds, and the limit is named with what was observed."""
    result, _ = await run(in_turn(ask("search", {"query": "x"}, text="hm")), limits=Limits(rounds=3))
    assert counts(result) == (3, 3, "max_rounds")
    assert (result.scope, result.limit, result.allowed, result.observed) == ("run", "rounds", 3, 3)
    assert (result.partial, result.answer, result.next, result.state) == ("hm", "", "raise_limit", State.STOPPED)


async def test_a_tool_cancels_its_run() -> None:
    """What the tool returned is recorded, and the run is cancelled."""
    result, journal = await run(in_turn(ask("stop_everything")))
    assert counts(result) == (1, 1, "cancelled")
    finished = [event for event in journal.events if isinstance(event, ToolFinished)]
    assert [(event.outcome, event.content) for event in finished] == [("ok", "stopped")]
    assert result.messages[-1].content == "stopped"
    assert "stop_everything" in result.message


async def test_a_tool_that_cancels_its_run_cuts_off_its_siblings(autojump_clock: trio.testing.MockClock) -> None:
    """The calls beside it end at once, with an unknown effect where they may have had one; later ones never start."""
    calls = ask_all(("slow", {}, "a"), ("stop_everything", {}, "b"), ("slow", {}, "c"))
    result, journal = await run(in_turn(calls), tool_concurrency=2)
    assert counts(result) == (1, 2, "cancelled")
    assert result.unknown_effects == (f"{result.run}/1/0",)
    assert [event.call for event in journal.events if isinstance(event, ToolStarted)] == ["a", "b"]
    refused = [event for event in journal.events if isinstance(event, ToolRefused)]
    assert [(event.call, event.outcome) for event in refused] == [("c", "not_started")]
    assert trio.current_time() < 1


async def test_search_then_answer_within_limits() -> None:
    """Five rounds and two tool calls allowed: two rounds and one call used."""
    script = in_turn(ask("search", {"query": "x"}), say("found"))
    result, _ = await run(script, limits=Limits(rounds=5, tool_calls=2))
    assert counts(result) == (2, 1, "final_answer")


async def test_the_third_search_is_refused_before_it_starts() -> None:
    """Two tool calls allowed: three rounds, two calls; the third is answered as refused and never started."""
    result, journal = await run(in_turn(ask("search", {"query": "x"})), limits=Limits(tool_calls=2))
    assert counts(result) == (3, 2, "max_tool_calls")
    assert sum(isinstance(event, ToolStarted) for event in journal.events) == 2
    refused = [event for event in journal.events if isinstance(event, ToolRefused)]
    assert [event.outcome for event in refused] == ["refused_budget"]
    assert result.messages[-1].content.startswith("Not run: run allows 2 tool calls")


async def test_calls_of_one_answer_are_checked_one_by_one() -> None:
    """Two calls left, five asked for: unknown and badly-argued ones cost nothing, the first two good ones run."""
    good: dict[str, object] = {"query": "x"}
    calls = ask_all(
        ("nope", {}, "a"), ("search", good, "b"), ("search", {}, "c"), ("search", good, "d"), ("search", good, "e")
    )
    result, journal = await run(in_turn(calls), limits=Limits(tool_calls=2))
    assert counts(result) == (1, 2, "max_tool_calls")
    assert [event.call for event in journal.events if isinstance(event, ToolStarted)] == ["b", "d"]
    refused = [(event.call, event.outcome) for event in journal.events if isinstance(event, ToolRefused)]
    assert refused == [("a", "unknown_tool"), ("c", "bad_arguments"), ("e", "refused_budget")]


async def test_an_exhausted_budget_is_checked_before_the_tool_is_known() -> None:
    """With nothing left even an unknown tool is refused for the budget."""
    result, journal = await run(in_turn(ask("nope")), limits=Limits(tool_calls=0))
    assert counts(result) == (1, 0, "max_tool_calls")
    assert [event.outcome for event in journal.events if isinstance(event, ToolRefused)] == ["refused_budget"]


async def test_a_slow_tool_meets_the_runs_deadline(autojump_clock: trio.testing.MockClock) -> None:
    """50 ms in all: one round, one tool call, timeout; the call's effect is unknown."""
    result, _ = await run(in_turn(ask("slow")), limits=Limits(timeout=0.05))
    assert counts(result) == (1, 1, "timeout")
    assert (result.scope, result.limit, result.allowed) == ("run", "timeout", 0.05)
    assert result.observed == pytest.approx(0.05)
    assert result.unknown_effects == (f"{result.run}/1/0",)
    assert "unknown" in result.messages[-1].content


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_answer_is_an_invalid_action(text: str) -> None:
    """An answer with neither words nor tool calls."""
    result, _ = await run(in_turn(say(text)))
    assert counts(result) == (1, 0, "invalid_action")


async def test_an_unknown_action_is_an_invalid_action() -> None:
    """An answer that announces tool calls and has none, or has calls that cannot be told apart."""
    from agents.messages import ModelReply

    announced = ModelReply(say("I shall call a tool"), "tool_calls")
    result, _ = await run(in_turn(announced))
    assert counts(result) == (1, 0, "invalid_action")
    result, _ = await run(in_turn(ask_all(("search", {"query": "x"}, "same"), ("search", {"query": "y"}, "same"))))
    assert counts(result) == (1, 0, "invalid_action")


@pytest.mark.parametrize("field", ["rounds", "tool_calls", "tokens", "micro_dollars", "timeout"])
async def test_nonsense_limits_name_the_field(field: str) -> None:
    """Refused before a run exists. 0 tool calls is legal, 0 rounds is not."""
    limits: dict[str, Any] = {field: -1}
    with pytest.raises(InvalidLimits, match=field):
        await run(in_turn(say("x")), limits=Limits(**limits))
    result, _ = await run(in_turn(say("x")), limits=Limits(tool_calls=0))
    assert counts(result) == (1, 0, "final_answer")
    with pytest.raises(InvalidLimits, match="rounds"):
        Limits(rounds=0)


@pytest.mark.parametrize(
    ("call", "tool_calls", "said"),
    [
        (ask("teleport"), 0, "There is no tool 'teleport'"),
        (ask("broken"), 1, "broken failed: OSError: disk on fire"),
        (ask("lookup", {"kee": "france"}), 0, "bad arguments for lookup"),
        (ask("lookup", "{'key': 1}"), 0, "bad arguments for lookup"),
    ],
)
async def test_an_unknown_or_failing_tool_is_an_observation_by_default(
    call: Message, tool_calls: int, said: str
) -> None:
    """The model is told and goes on; with on_tool_error = "stop" the run ends as tool_error."""
    result, _ = await run(in_turn(call, say("well then")))
    assert counts(result) == (2, tool_calls, "final_answer")
    assert said in result.messages[2].content
    result, _ = await run(in_turn(call, say("well then")), on_tool_error="stop")
    assert counts(result) == (1, tool_calls, "tool_error")
    assert said in result.message
    assert (result.state, result.next) == (State.FAILED, "human")


async def test_a_failing_tool_that_stops_the_run_cuts_off_its_siblings(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The call beside the failing one ends at once."""
    result, _ = await run(in_turn(ask_all(("slow", {}, "a"), ("broken", {}, "b"))), on_tool_error="stop")
    assert counts(result) == (1, 2, "tool_error")
    assert trio.current_time() < 1


@pytest.mark.parametrize("error", [Unavailable("no route"), RuntimeError("a bug in the client")])
async def test_a_model_client_that_raises_is_a_planner_error(error: Exception) -> None:
    """The model call failed: no round, and the reason says why."""
    result, _ = await run(in_turn(error))
    assert counts(result) == (0, 0, "planner_error")
    assert str(error) in result.message


async def test_a_model_client_that_raises_after_the_deadline_is_a_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """If the run's deadline passed meanwhile, that is the reason, not the error it led to."""
    result, _ = await run(in_turn(say("late")), latency=1, limits=Limits(timeout=0.5))
    assert counts(result) == (0, 0, "timeout")
    assert result.reason is StopReason.TIMEOUT


@pytest.mark.parametrize("field", ["max_tokens", "output_floor", "tool_concurrency", "compact_at", "compact_keep"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_an_agent_that_makes_no_sense_names_the_field(field: str, value: Any) -> None:
    """An agent's own numbers are checked like limits; two tools of one name are refused as well."""
    fields: dict[str, Any] = {field: value}
    with pytest.raises(InvalidLimits, match=field):
        AgentSpec(name="agent", model="scripted", **fields)
    with pytest.raises(InvalidTool, match="two tools called search"):
        AgentSpec(name="agent", model="scripted", tools=(search, search))
