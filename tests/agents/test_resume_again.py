"""Runs that are taken up more than once, or end as soon as they are taken up."""

import pytest
import trio
import trio.testing

from agents.events import CancelRequested, ToolFinished, ToolStarted
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.scripted import ask_all, in_turn, say
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

CALLS = in_turn(
    ask_all(("put", {"text": "a"}), ("put", {"text": "b"}), ("write", {"text": "c"})),
    ask_all(("write", {"text": "d"})),
    say("done"),
)


def agent_of(world: World, concurrency: int = 8) -> AgentSpec:
    return AgentSpec(name="agent", model="scripted", tools=world.tools(), tool_concurrency=concurrency)


async def cut_behind_starts(count: int) -> SessionLog:
    """A log that ends with the start of the `count`-th call."""
    log, world = SessionLog(), World(CALLS)
    run = AgentRun(agent_of(world), "x", model=world, journal=Executor(log), run="r", wall=wall)
    await run.create()
    await run.drive()
    starts = [place for place, event in enumerate(log.events) if isinstance(event, ToolStarted)]
    return SessionLog(log.events[: starts[count - 1] + 1])


async def test_effects_unknown_to_an_earlier_life_are_told_at_the_end(autojump_clock: trio.testing.MockClock) -> None:
    """Two executors are lost over two calls: the result names both."""
    world = World(CALLS)
    log = await cut_behind_starts(3)
    executor = Executor(log, dies_at=8, late=True)
    with pytest.raises(JournalLost):
        await (await take_up(log, agent_of(world), world, executor)).drive()
    assert isinstance(log.events[-1], ToolStarted)
    run = await take_up(log, agent_of(world), world)
    result = await run.drive()
    assert result.unknown_effects == ("r/1/2", "r/2/0")
    assert_told_as_driven(log, result)
    assert_whole_over_lives(log.events)


async def test_a_call_that_would_have_been_repeated_stays_paid(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelled before its turn comes again, a started call is told as cut off, and is still a tool call."""
    world = World(CALLS)
    log = await cut_behind_starts(2)
    run = await take_up(log, agent_of(world, concurrency=1), world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(0.25)
        run.cancel()
    assert run.result is not None
    assert (run.result.reason, run.result.tool_calls, run.scope.used.tool_calls) == (StopReason.CANCELLED, 2, 2)
    finished = [event for event in log.events if isinstance(event, ToolFinished)]
    assert [(event.index, event.outcome) for event in finished] == [(0, "cancelled"), (1, "cancelled")]
    assert_told_as_driven(log, run.result)
    assert_whole_over_lives(log.events)
    assert_effects(world, log.events)


async def test_a_run_cancelled_while_nobody_drove_it_needs_no_place(autojump_clock: trio.testing.MockClock) -> None:
    """It ends at once although all places are taken; what was under way is told as unknown, and nothing is run."""
    world = World(CALLS)
    log = await cut_behind_starts(3)
    log.outside(CancelRequested(run="r", source="user", reason="interrupted"))
    room = trio.CapacityLimiter(1)
    room.acquire_on_behalf_of_nowait("another")
    result = await (await take_up(log, agent_of(world), world)).drive(room)
    assert (result.reason, result.unknown_effects) == (StopReason.INTERRUPTED, ("r/1/2",))
    assert world.begun == []
    assert sum(isinstance(event, CancelRequested) for event in log.events) == 1
    assert_told_as_driven(log, result)
    assert_whole_over_lives(log.events)
