"""Where a transcript is cut, what is asked for, and what a run does with the answer."""

import itertools
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.compaction import (
    ASK,
    QUOTE,
    SUMMARY,
    compaction_due,
    context_size,
    cut,
    summary_message,
    summary_of,
    summary_request,
)
from agents.errors import Refused
from agents.events import Compacted, Event, ModelFailed, ModelReplied, ModelRequested
from agents.fold import fold, result_of, transcript
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.loop import AgentRun
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.result import RunResult
from agents.scripted import Answer, Script, ScriptedModel, ask, say
from agents.spec import AgentSpec
from agents.tools import tool
from tests.agents.test_fold_runs import PRICES, Compared

PAGE = "a page of what was found " * 40


@tool(read_only=True)
async def look(n: int) -> str:
    """Looks something up."""
    return f"{n}: {PAGE}"


def agent(**fields: Any) -> AgentSpec:
    fields = {"compact_at": 1500, "compact_keep": 4} | fields
    return AgentSpec(name="agent", model="scripted", system="Be brief.", tools=(look,), **fields)


def looks(times: int, summary: Answer | None = None) -> Script:
    """Looks `times` times and then answers; asked for a summary, it gives that, or says how often it has looked."""
    seen = itertools.count()

    def script(messages: tuple[Message, ...]) -> Answer:
        if messages[-1].content == ASK:
            return summary or say(f"looked at {len(messages)} messages")
        number = next(seen)
        return say("done") if number == times else ask("look", {"n": number}, id=f"c{number}")

    return script


async def run(script: Script, **fields: Any) -> tuple[RunResult, tuple[Event, ...], ScriptedModel]:
    """How the run ended, its events, and the model that was asked; whenever it was, run and fold were compared."""
    journal, model = MemoryJournal(), ScriptedModel(script)
    compared = Compared(model, journal)
    one = AgentRun(agent(**fields), "Look at everything.", model=compared, journal=journal, prices=PRICES)
    compared.run = one
    await one.create()
    result = await one.drive()
    assert not compared.differences
    return result, journal.events, model


def of(events: tuple[Event, ...], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


steps = st.lists(st.integers(0, 4), max_size=12)


def conversation(calls: list[int]) -> list[Message]:
    """An assistant's message per number, with so many calls and their results; one without calls is answered to."""
    made = [Message("system", "s"), Message("user", "task")]
    for place, count in enumerate(calls):
        asked = tuple(ToolCall(f"{place}.{n}", "look", "{}") for n in range(count))
        made.append(Message("assistant", "words", tool_calls=asked))
        made += [Message("tool", "result", tool_call_id=call.id) for call in asked] or [Message("user", "more")]
    return made


@settings(max_examples=200)
@given(steps, st.integers(1, 10))
def test_a_cut_never_takes_a_call_from_its_result(calls: list[int], keep: int) -> None:
    """What stays is at least what was asked for and begins with no result; the system prompt is before every cut."""
    messages = conversation(calls)
    count = cut(messages, 1, keep)
    assert count >= 0
    if count:
        stays = messages[1 + count :]
        assert len(stays) >= keep
        assert stays[0].role != "tool"
        assert count >= max(2, keep // 2)
        shortened = [messages[0], summary_message("sum"), *stays]
        assert cut(shortened, 1, keep) < count


def test_size_is_what_the_provider_counted_and_what_came_since() -> None:
    """The provider's count stands for all up to its last answer; text it has not seen is four bytes a token."""
    messages = [Message("user", "x" * 400), Message("assistant", "y" * 40), Message("tool", "ö" * 200)]
    assert context_size(messages, None) == (400 + 40 + 400) // 4
    assert context_size(messages, 7000) == 7000 + 100
    assert context_size(messages[:2], 7000) == 7000


def test_nothing_is_due_without_a_limit_or_below_it() -> None:
    """An agent without `compact_at` keeps its transcript whole, and so does one whose transcript is short."""
    messages = conversation([1] * 10)
    assert compaction_due(agent(compact_at=None), messages, 1, 10**6) == 0
    assert compaction_due(agent(), messages, 1, 1400) == 0
    assert compaction_due(agent(), messages, 1, 1600) == len(messages) - 1 - 4


def test_a_summary_is_asked_for_with_the_same_beginning() -> None:
    """The request is the transcript up to the cut with the same tools, none to be called, and no format to be kept."""
    messages = conversation([1] * 10)
    spec = agent(response_format={"type": "json_object"}, stop=("END",), tool_choice="required")
    request = summary_request(spec, messages, 8, 99)
    assert request.messages == (*messages[:8], Message("user", ASK))
    assert request.tools == spec.request((), None).tools
    assert (request.tool_choice, request.response_format, request.stop, request.max_tokens) == ("none", None, (), 99)


def test_the_last_request_is_kept_word_for_word() -> None:
    """It stands behind the summary, and behind the summary of that summary; one that is too long is left out."""
    task = Message("user", "Find the blue door.")
    long = Message("assistant", PAGE)
    first = summary_of(ModelReply(say("one"), "stop"), [task, long])
    assert first == f"one\n\n{QUOTE}Find the blue door."
    second = summary_of(ModelReply(say("two"), "stop"), [summary_message(first), long])
    assert second == f"two\n\n{QUOTE}Find the blue door."
    assert summary_of(ModelReply(say("three"), "stop"), [Message("user", PAGE * 9), long]) == "three"


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(say("cut o"), "length"),
        ModelReply(say("  "), "stop"),
        ModelReply(say(PAGE * 2), "stop"),
        ModelReply(ask("look", {"n": 1}, text="wait"), "tool_calls"),
        ModelReply(say(""), "content_filter"),
    ],
)
def test_what_is_no_summary_is_not_taken_for_one(reply: ModelReply) -> None:
    """Cut off, empty, longer than what it stands for, a tool call, withheld: the transcript stays whole."""
    assert summary_of(reply, [Message("user", "task"), Message("assistant", PAGE)]) is None


async def test_a_long_run_is_shortened_and_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """Summaries take the place of what is oldest, the run ends as it would have, and no request is much too long."""
    result, events, model = await run(looks(20))
    assert (result.reason, result.rounds, result.tool_calls) == (StopReason.FINAL_ANSWER, 21, 20)
    compacted = of(events, Compacted)
    assert len(compacted) >= 3
    for request in model.requests:
        assert request.messages[0] == Message("system", "Be brief.")
        assert len(request.messages) <= 12
    assert result.messages[1].content.startswith(SUMMARY)
    assert result.messages[1].content.endswith(f"{QUOTE}Look at everything.")
    last = fold(events).last
    assert last is not None
    assert result_of(last) == result


async def test_a_summary_is_a_call_of_its_own_in_log_and_budget(autojump_clock: trio.testing.MockClock) -> None:
    """It is announced, its tokens count, it is no round, and its key differs from that of the step that follows."""
    result, events, _ = await run(looks(6))
    asked = of(events, ModelRequested)
    first = next(place for place, event in enumerate(asked) if event.purpose == "compact")
    assert (asked[first].attempt, asked[first + 1].attempt) == (1, 2)
    assert asked[first].step == asked[first + 1].step
    assert len({event.key for event in asked}) == len(asked)
    replies = of(events, ModelReplied)
    assert result.usage == sum((event.reply.usage for event in replies), Usage())
    assert result.rounds == sum(event.purpose == "step" for event in replies) < len(replies)


@pytest.mark.parametrize("summary", [Refused("no such tool choice"), say(" "), ask("look", {"n": 1})])
async def test_a_model_that_cannot_sum_up_is_not_asked_at_every_step(
    autojump_clock: trio.testing.MockClock, summary: Answer
) -> None:
    """The run goes on whole, and the next try comes when as much has been added as is kept."""
    result, events, _ = await run(looks(12, summary))
    assert result.reason is StopReason.FINAL_ANSWER
    assert not of(events, Compacted)
    tries = sum(event.purpose == "compact" for event in of(events, ModelReplied) + of(events, ModelFailed))
    assert 2 <= tries <= 6
    assert len(result.messages) == 2 + 2 * 12 + 1


async def test_a_budget_without_room_for_a_summary_stops_at_its_own_step(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """No summary is bought that leaves nothing for the answer; what stops the run is the step that had no room."""
    result, events, _ = await run(looks(20), limits=Limits(tokens=9000))
    assert result.reason is StopReason.TOKEN_BUDGET_EXCEEDED
    assert not [event for event in of(events, ModelRequested) if event.purpose == "compact"]


@pytest.mark.parametrize("end", ["requested", "replied"])
async def test_a_run_lost_while_it_is_shortened_is_shortened_again(
    autojump_clock: trio.testing.MockClock, end: str
) -> None:
    """Before the summary is in the log the transcript is whole, and whoever takes the run up asks for it again."""
    _, events, _ = await run(looks(6))
    kind = ModelRequested if end == "requested" else ModelReplied
    place = next(n for n, e in enumerate(events) if isinstance(e, kind) and e.purpose == "compact")
    left = fold(events[: place + 1]).last
    assert left is not None
    assert [message.content for message in transcript(left)][:2] == ["Be brief.", "Look at everything."]
    journal = MemoryJournal()
    await journal.append(events[: place + 1])
    model = ScriptedModel(looks(3))
    taken = AgentRun.take_up(agent(), left, model=model, journal=journal, number=place + 1)
    result = await taken.drive()
    assert result.reason is StopReason.FINAL_ANSWER
    assert model.requests[0].messages[-1].content == ASK
    last = fold(journal.events).last
    assert last is not None
    assert result_of(last) == result
