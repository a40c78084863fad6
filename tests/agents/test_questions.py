"""Questions to people: the model asks, the run waits, and the answer is the call's value."""

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.events import InputRequested, ToolFinished, ToolRefused, ToolStarted
from agents.lifecycle import State, StopReason
from agents.messages import Message
from agents.scripted import ask, ask_all, in_turn, say
from tests.agents.lives import Executor, SessionLog, assert_told_as_driven, assert_whole_over_lives, take_up
from tests.agents.people import (
    AskedWorld,
    agent_of,
    assert_people_had_their_say,
    begin,
    decided,
    given,
    go_on,
    keys,
    names,
    parked,
    until_parked,
)

COLOUR = {"question": "Which colour?", "options": ["red", "blue"]}
ASKS = in_turn(ask("ask", COLOUR), say("done"))


async def test_an_answer_is_the_value_of_its_call(autojump_clock: trio.testing.MockClock) -> None:
    """It starts and finishes in one batch, the model reads it as the tool's result, and it counts as a tool call."""
    world = AskedWorld(ASKS)
    log = await until_parked(world)
    (asked,) = log.snapshot().asked
    assert isinstance(asked, InputRequested)
    assert (asked.question, asked.options, asked.expires) == ("Which colour?", ("red", "blue"), None)
    assert log.snapshot().waiting == ("input",)
    result = await go_on(log, world, given("r/1/0", "green, if I may"))
    started, finished = (event for event in log.events if isinstance(event, ToolStarted | ToolFinished))
    assert (started.key, started.approval, finished.outcome) == ("r/1/0", "", "ok")  # type: ignore[union-attr]
    assert result.messages[2] == Message("tool", "green, if I may", tool_call_id="call_0")
    assert (result.ok, result.tool_calls) == (True, 1)
    assert_told_as_driven(log, result)
    assert_whole_over_lives(log.events)
    assert_people_had_their_say(log.events)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ("denied", "Not answered: ann declined to answer, saying: ask bob."),
        ("expired", "Not answered: nobody answered in time."),
    ],
)
async def test_a_question_may_stay_without_an_answer(
    decision: str, told: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Somebody declines or nobody comes: the model is told so and goes on."""
    world = AskedWorld(ASKS)
    log = await until_parked(world)
    result = await go_on(log, world, decided("r/1/0", decision, note="ask bob" if decision == "denied" else ""))
    refused = next(event for event in log.events if isinstance(event, ToolRefused))
    assert (refused.outcome, refused.content, result.ok) == ("denied", told, True)
    assert_told_as_driven(log, result)


async def test_only_an_answer_answers(autojump_clock: trio.testing.MockClock) -> None:
    """An approval answers no question, and an answer approves nothing; both are evidence."""
    world = AskedWorld(in_turn(ask_all(("ask", COLOUR), ("pay", {"text": "a"})), say("done")))
    log = await until_parked(world)
    assert log.snapshot().waiting == ("approval", "input")
    log.outside(decided("r/1/0"), given("r/1/1"))
    await parked(await take_up(log, agent_of(world), world))
    assert (keys(log.snapshot()), world.begun) == (["r/1/0", "r/1/1"], [])


async def test_the_first_answer_counts(autojump_clock: trio.testing.MockClock) -> None:
    """Two people answer: the model reads what came first, and the other is evidence."""
    world = AskedWorld(ASKS)
    log = await until_parked(world)
    result = await go_on(log, world, given("r/1/0", "red"), given("r/1/0", "blue"))
    assert result.messages[2].content == "red"
    assert_people_had_their_say(log.events)


async def test_an_answer_after_its_time_is_none(autojump_clock: trio.testing.MockClock) -> None:
    """It came when the question had expired by the log's own times."""
    world = AskedWorld(ASKS, expires_in=10)
    log = await until_parked(world)
    await trio.sleep(11)
    result = await go_on(log, world, given("r/1/0"))
    assert result.messages[2].content == "Not answered: nobody answered in time."


async def test_an_answer_while_other_calls_run_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """It is in the log while the other call still works, and the run never parks."""
    world = AskedWorld(in_turn(ask_all(("write", {"text": "a"}), ("ask", COLOUR)), say("done")))
    log = SessionLog()
    run = await begin(world, Executor(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(2)
        answer = given("r/1/1")
        log.outside(answer)
        run.receive([answer])
        await trio.testing.wait_all_tasks_blocked()
        assert names(log)[-3:] == ["input_given", "tool_started", "tool_finished"]
        assert run.state is State.WAITING_TOOL
    assert run.result is not None
    assert "run_waiting" not in names(log)
    assert_told_as_driven(log, run.result)


async def test_an_answer_that_no_budget_allows_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """While people thought, another approved call took the last one: the answer is not the model's to read."""
    world = AskedWorld(in_turn(ask_all(("ask", COLOUR), ("ask", COLOUR)), say("done")))
    log = await until_parked(world, limits=Limits(tool_calls=2))
    log.outside(given("r/1/0"), given("r/1/1"))
    run = await take_up(log, agent_of(world), world)
    run.scope.limits = Limits(tool_calls=1)
    result = await run.drive()
    assert (result.reason, result.tool_calls) == (StopReason.MAX_TOOL_CALLS, 1)
    assert_told_as_driven(log, result)


async def test_bad_questions_ask_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """A call that does not say what to ask is answered with what was wrong."""
    world = AskedWorld(in_turn(ask_all(("ask", {"question": " "}), ("ask", {})), say("done")))
    log = SessionLog()
    result = await (await begin(world, Executor(log))).drive()
    assert result.ok
    assert "input_requested" not in names(log)
