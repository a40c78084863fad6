"""A run whose executor goes away, at every place where it can, and that the next one takes up."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.events import ModelFailed, ModelRequested, RunEnded, RunResumed, ToolFinished, ToolStarted
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.messages import Message, ModelReply, Usage
from agents.money import Price, PriceList
from agents.result import RunResult
from agents.scripted import Script, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from tests.agents.lives import (
    Executor,
    SessionLog,
    World,
    assert_effects,
    assert_told_as_driven,
    assert_whole_over_lives,
    take_up,
    wall,
)
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole

PRICES = PriceList({"scripted": Price(input=1_000_000, output=2_000_000)})

MIXED = in_turn(
    ask_all(("write", {"text": "a"}), ("put", {"text": "b"}), ("nonsense", {}), ("look", {})),
    ask_all(("put", {"text": "c"}), ("write", {"text": 1}), ("write", {"text": "d"})),
    say("done"),
)

SCENARIOS: dict[str, tuple[Script, dict[str, Any]]] = {
    "answers at once": (in_turn(say("hello")), {}),
    "all sorts of calls": (MIXED, {"tool_concurrency": 2}),
    "repeatable calls only": (in_turn(ask_all(("put", {"text": "b"}), ("look", {})), ask("look"), say("done")), {}),
    "too many calls": (MIXED, {"limits": Limits(tool_calls=3)}),
    "too many rounds": (in_turn(ask("look")), {"limits": Limits(rounds=3)}),
    "too many tokens": (in_turn(ask("look")), {"limits": Limits(tokens=2_500), "max_tokens": 300}),
    "too dear": (in_turn(ask("look")), {"limits": Limits(micro_dollars=2_500), "max_tokens": 300}),
    "an answer too long": (in_turn(ask("look"), say("x" * 4000)), {"max_tokens": 100}),
    "an empty answer": (in_turn(ask("look"), say(" ")), {}),
    "a tool that fails": (in_turn(ask_all(("broken", {}), ("look", {})), say("done")), {}),
    "a failure that ends it": (in_turn(ask_all(("look", {}), ("broken", {})), say("no")), {"on_tool_error": "stop"}),
    "a failure that cuts off another": (
        in_turn(ask_all(("write", {"text": "a"}), ("broken", {})), say("no")),
        {"on_tool_error": "stop"},
    ),
    "an unknown tool ends it": (in_turn(ask_all(("look", {}), ("nope", {})), say("no")), {"on_tool_error": "stop"}),
    "a tool that cancels": (in_turn(ask_all(("stop", {}), ("look", {})), say("no")), {}),
}


def agent_of(world: World, **spec: Any) -> AgentSpec:
    return AgentSpec(name="agent", model="scripted", tools=world.tools(), **spec)


async def whole_life(name: str) -> tuple[SessionLog, RunResult]:
    """The scenario with an executor that stays."""
    script, spec = SCENARIOS[name]
    world, log = World(script), SessionLog()
    run = AgentRun(agent_of(world, **spec), "x", model=world, journal=Executor(log), run="r", wall=wall, prices=PRICES)
    await run.create()
    result = await run.drive()
    assert_told_as_driven(log, result)
    return log, result


def ends_alike(result: RunResult, uncut: RunResult) -> bool:
    fields = ("reason", "message", "answer", "partial", "rounds", "tool_calls", "messages", "scope", "limit", "allowed")
    return all(getattr(result, field) == getattr(uncut, field) for field in fields)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_run_cut_off_after_any_event_ends_as_it_would_have(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    """For every prefix of the log, the run is whole when it ends, and where nothing was under way it ends the same."""
    uncut_log, uncut = await whole_life(name)
    events = uncut_log.events
    script, spec = SCENARIOS[name]
    for kept in range(1, len(events)):
        world, log, job = World(script), SessionLog(events[:kept]), Scope("job")
        before = log.snapshot()
        run = await take_up(log, agent_of(world, **spec), world, budget=job, prices=PRICES)
        result = await run.drive()
        after = log.snapshot()
        assert log.events[:kept] == events[:kept]
        assert_told_as_driven(log, result)
        assert_whole_over_lives(log.events)
        assert_transcript_whole(result)
        assert_nothing_reserved(run.scope)
        assert (run.scope.used, run.scope.unknown) == (after.used, after.unknown)
        assert job.used == after.used - before.used
        open_calls = () if before.open_step is None else before.open_step.calls
        lost = [c for c in open_calls if c.started and c.outcome is None and not c.repeatable]
        known = (*before.unknown_effects, *(call.key for call in lost))
        assert result.unknown_effects[: len(known)] == known
        torn = kept not in uncut_log.whole
        if before.open_request is None and not lost and not torn:
            assert ends_alike(result, uncut), kept
        done = {c.key for c in open_calls if c.outcome is not None} | {c.key for c in lost}
        assert not done & {key for key, _ in world.begun}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["all sorts of calls", "too many calls", "a failure that ends it"])
async def test_no_effect_happens_twice_whenever_the_executor_is_killed(
    name: str, late: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Killed before or behind every append, and again at the same place of the next life: effects happen once."""
    script, spec = SCENARIOS[name]
    at = 1
    while True:
        at += 1
        world, log = World(script), SessionLog()
        agent = agent_of(world, **spec)
        executor = Executor(log, dies_at=at, late=late)
        run = AgentRun(agent, "x", model=world, journal=executor, run="r", wall=wall)
        await run.create()
        lives = 1
        while True:
            try:
                result = await run.drive()
            except JournalLost:
                await trio.sleep(10)
            else:
                break
            if log.snapshot().ended is not None:
                result = None
                break
            lives += 1
            executor = Executor(log, dies_at=at if lives < 3 else None, late=late)
            run = await take_up(log, agent, world, executor)
        assert_whole_over_lives(log.events)
        assert_effects(world, log.events)
        assert len(set(world.keys)) == len(world.keys), "two model calls had one key"
        if result is not None:
            assert_told_as_driven(log, result)
            assert_transcript_whole(result)
        if lives == 1:
            break
    assert at > 8


async def test_a_lost_model_call_is_asked_again_and_stays_paid(autojump_clock: trio.testing.MockClock) -> None:
    """Nobody knows what it cost, so all that it held stays held; it is no round; the next has another key."""
    uncut, _ = await whole_life("answers at once")
    place = next(i for i, event in enumerate(uncut.events) if isinstance(event, ModelRequested))
    log, world = SessionLog(uncut.events[: place + 1]), World(in_turn(say("hello")))
    asked = log.events[place]
    assert isinstance(asked, ModelRequested)
    run = await take_up(log, agent_of(world), world, prices=PRICES)
    assert run.scope.unknown.tokens == asked.reserved_tokens
    result = await run.drive()
    lost = next(event for event in log.events if isinstance(event, ModelFailed))
    assert (lost.kind, lost.unknown_tokens) == ("lost", asked.reserved_tokens)
    assert (result.rounds, result.unknown_tokens, result.micro_dollars) == (1, asked.reserved_tokens, None)
    assert world.keys == ["r/1/2"]
    assert [type(event) for event in log.events[place + 1 : place + 3]] == [ModelFailed, RunResumed]


async def test_a_lost_call_of_a_tool_is_told_to_the_model(autojump_clock: trio.testing.MockClock) -> None:
    """What may not be repeated is closed as unknown, with a word on what to do; the rest is done with the same key."""
    uncut, _ = await whole_life("all sorts of calls")
    starts = [i for i, event in enumerate(uncut.events) if isinstance(event, ToolStarted)]
    log, world = SessionLog(uncut.events[: starts[1] + 1]), World(MIXED)
    run = await take_up(log, agent_of(world), world)
    await run.drive()
    finished = {e.index: e for e in log.events if isinstance(e, ToolFinished) and e.step == 1}
    assert finished[0].outcome == "unknown_effect"
    assert "look at the state of things before repeating it" in finished[0].content
    assert "look at the state" in next(m.content for m in world.requests[0].messages if m.role == "tool")
    assert finished[1].outcome == "ok"
    assert world.begun[0] == ("r/1/1", "b")
    starts_of_1 = [e for e in log.events if isinstance(e, ToolStarted) and (e.step, e.index) == (1, 1)]
    assert [e.key for e in starts_of_1] == ["r/1/1", "r/1/1"]


async def test_a_tool_that_is_no_longer_repeatable_is_not_repeated(autojump_clock: trio.testing.MockClock) -> None:
    """It was declared idempotent when it started and is not now, or is gone: then its effect is unknown."""
    uncut, _ = await whole_life("repeatable calls only")
    start = next(i for i, event in enumerate(uncut.events) if isinstance(event, ToolStarted))
    for tools in ((), World(MIXED).tools()[2:]):
        log, world = SessionLog(uncut.events[: start + 1]), World(in_turn(say("no")))
        run = await take_up(log, AgentSpec(name="agent", model="scripted", tools=tools), world)
        result = await run.drive()
        assert result.unknown_effects == ("r/1/0",)
        assert world.begun == []


async def test_a_run_that_gets_no_further_fails(autojump_clock: trio.testing.MockClock) -> None:
    """After three resumes without a newly sealed step it ends as an internal error, and its log is whole."""
    world, log = World(MIXED), SessionLog()
    agent = agent_of(world)
    run = AgentRun(agent, "x", model=world, journal=Executor(log, dies_at=3, late=True), run="r", wall=wall)
    await run.create()
    for _ in range(3):
        with pytest.raises(JournalLost):
            await run.drive()
        run = await take_up(log, agent, world, Executor(log, dies_at=2, late=True))
    with pytest.raises(JournalLost):
        await run.drive()
    assert log.snapshot().resumes == 3
    run = await take_up(log, agent, world)
    result = await run.drive()
    assert (result.reason, result.message) == (
        StopReason.INTERNAL_ERROR,
        "the run was taken up 3 times and got no further",
    )
    assert world.requests == []
    assert_whole_over_lives(log.events)
    assert_told_as_driven(log, result)


async def test_only_its_own_scope_is_restored(autojump_clock: trio.testing.MockClock) -> None:
    """What a run used before is put into its own budget; the scope above gets what it uses from now on."""
    uncut, result = await whole_life("too many rounds")
    log, world = SessionLog(uncut.events[:-1]), World(in_turn(ask("look")))
    job = Scope("job")
    run = await take_up(log, agent_of(world, limits=Limits(rounds=3)), world, budget=job)
    assert run.scope.used.rounds == 3
    again = await run.drive()
    assert (again.reason, again.rounds) == (result.reason, 3)
    assert job.used == NOTHING


async def test_a_run_that_was_never_begun_just_begins(autojump_clock: trio.testing.MockClock) -> None:
    """Queued through any number of restarts, it counts no resume."""
    uncut, result = await whole_life("answers at once")
    log, world = SessionLog(uncut.events[:1]), World(in_turn(say("hello")))
    again = await (await take_up(log, agent_of(world), world, prices=PRICES)).drive()
    assert again == result
    assert [type(event) for event in log.events] == [type(event) for event in uncut.events]
    assert isinstance(log.events[-1], RunEnded)


async def test_a_sealed_answer_is_judged_with_what_shortened_it(autojump_clock: trio.testing.MockClock) -> None:
    """An answer that a budget cut short stops for the budget's reason, also when the next executor judges it."""

    def script(messages: tuple[Message, ...]) -> ModelReply:
        return ModelReply(say("half an answ"), "length", Usage(input=10, output=30))

    world, log = World(script), SessionLog()
    agent = agent_of(world, limits=Limits(tokens=3_000), max_tokens=4_000)
    run = AgentRun(agent, "x", model=world, journal=Executor(log, dies_at=4, late=True), run="r", wall=wall)
    await run.create()
    with pytest.raises(JournalLost):
        await run.drive()
    result = await (await take_up(log, agent, world)).drive()
    assert (result.reason, result.limit, result.partial) == (
        StopReason.TOKEN_BUDGET_EXCEEDED,
        "tokens",
        "half an answ",
    )
