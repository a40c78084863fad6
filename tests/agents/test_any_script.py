"""Whatever a model says: the run ends within its limits, with a whole journal and a whole transcript."""

from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.budget import Scope
from agents.context import ToolContext
from agents.errors import ModelError, Refused, Throttled, Unavailable
from agents.events import decode, encode
from agents.journal import MemoryJournal
from agents.lifecycle import TERMINAL_STATE
from agents.loop import run_agent
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.money import Price, PriceList
from agents.result import RunResult
from agents.scripted import Answer, ScriptedModel, in_turn
from agents.spec import AgentSpec
from agents.tools import Tool, tool
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole, assert_whole


@tool(read_only=True, concurrency=2)
async def read(seconds: float = 0) -> str:
    """Reads for a while."""
    await trio.sleep(min(abs(seconds), 1000))
    return "read"


@tool(timeout=5)
async def write(text: str) -> str:
    """Writes, and sometimes hangs or fails."""
    if text == "hang":
        await trio.sleep_forever()
    if text == "fail":
        raise OSError(text)
    return text


@tool()
async def leave(context: ToolContext) -> str:
    """Ends the run, now and then."""
    context.cancel_run()
    return "left"


TOOLS: tuple[Tool, ...] = (read, write, leave)

asked = st.tuples(
    st.sampled_from(["read", "read", "write", "write", "leave", "unknown"]),
    st.sampled_from(
        ["{}", "{}", '{"seconds": 3}', '{"text": "hang"}', '{"text": "fail"}', '{"text": "x"}', '{"text": 1}', "", "["]
    ),
)


def message(text: str, wanted: list[tuple[str, str]], same_ids: bool) -> Message:
    made = (ToolCall("same" if same_ids else f"c{n}", *call) for n, call in enumerate(wanted))
    return Message("assistant", text, tool_calls=tuple(made))


rarely = st.integers(0, 15).map(lambda number: number == 0)
texts = st.sampled_from(["words", "wörter\U0001f642" * 30, ""])
asking = st.builds(message, texts, st.lists(asked, min_size=1, max_size=4), rarely)
saying = st.builds(message, texts, st.just([]), rarely)
messages = asking | asking | asking | saying
usages = st.builds(Usage, input=st.none() | st.integers(0, 400), output=st.none() | st.integers(0, 100))
replies = st.builds(
    ModelReply,
    message=messages,
    finish_reason=st.sampled_from(["stop", "tool_calls", "tool_calls", "length", "content_filter"]),
    usage=usages,
)
errors: st.SearchStrategy[ModelError] = st.sampled_from(
    [Throttled("429"), Refused("400"), Unavailable("gone"), Unavailable("cut", usage=Usage(input=9, output=1))]
)
answers = st.lists(st.one_of(asking, asking, asking, messages, replies, errors), min_size=1, max_size=6)
limits = st.builds(
    Limits,
    rounds=st.integers(2, 8),
    tool_calls=st.none() | st.integers(0, 10),
    tokens=st.none() | st.none() | st.integers(2_000, 40_000),
    micro_dollars=st.none() | st.none() | st.integers(2_000, 60_000),
    timeout=st.none() | st.floats(1, 60),
)


@settings(max_examples=150, deadline=None)
@given(
    answers,
    limits,
    limits,
    st.sampled_from(["observe", "stop"]),
    st.integers(1, 3),
    st.none() | st.integers(1, 200),
    st.sampled_from([0.0, 1.0]),
)
def test_any_run_ends_whole_and_within_its_limits(
    script: list[Answer],
    own: Limits,
    above: Limits,
    on_tool_error: Any,
    concurrency: int,
    max_tokens: int | None,
    latency: float,
) -> None:
    """Random answers, errors, limits and clocks: one end, its reason fits, nothing reserved, no limit overshot."""
    journal, job = MemoryJournal(), Scope("job", above)
    agent = AgentSpec(
        name="agent",
        model="scripted",
        tools=TOOLS,
        limits=own,
        max_tokens=max_tokens,
        on_tool_error=on_tool_error,
        tool_concurrency=concurrency,
    )
    model = ScriptedModel(in_turn(*script), latency=latency)
    prices = PriceList({"scripted": Price(input=1_000_000, output=2_000_000)})

    async def main() -> RunResult:
        with trio.fail_after(100_000):
            return await run_agent(agent, "x", model=model, journal=journal, budget=job, prices=prices)

    result = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    events = journal.events
    assert_whole(events)
    assert_transcript_whole(result)
    assert_nothing_reserved(job)
    assert [decode(encode(event)) for event in events] == list(events)
    assert result.state is TERMINAL_STATE[result.reason]
    assert result.reason != "internal_error"
    assert bool(result.limit) == (result.next == "raise_limit" and result.reason != "output_limit")
    for scope_limits in (own, above):
        assert result.rounds <= (scope_limits.rounds or result.rounds)
        assert scope_limits.tool_calls is None or result.tool_calls <= scope_limits.tool_calls
    assert (job.used.rounds, job.used.tool_calls) == (result.rounds, result.tool_calls)
