"""A run that its executor leaves, at every point where it can: it stays open, and the next one ends it."""

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.events import ModelFailed, RunEnded, ToolFinished, ToolStarted
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.origin import RunLeft
from agents.scripted import ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
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
from tests.agents.test_cancel_everywhere import AtStep
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole

SCRIPT = in_turn(
    ask_all(("write", {"text": "a"}), ("put", {"text": "b"}), ("nonsense", {}), ("look", {})),
    ask_all(("put", {"text": "c"}), ("write", {"text": "d"}), ("write", {"text": "e"})),
    say("done"),
)


async def test_a_run_that_is_left_soon_lets_its_calls_end(autojump_clock: trio.testing.MockClock) -> None:
    """Whenever it is told, no model call and no tool is cut off, nothing new begins, and the next executor ends it."""
    left, step, steps = 0, 0, 1
    while step < steps:
        step += 1
        world, log = World(SCRIPT), SessionLog()
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools(), tool_concurrency=4)
        run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
        await run.create()
        trigger = AtStep(step, run.leave_soon)
        trio.lowlevel.add_instrument(trigger)
        try:
            result = await run.drive()
        except RunLeft:
            left += 1
            assert not any(isinstance(event, ModelFailed) for event in log.events)
            started = {(event.step, event.index) for event in log.events if isinstance(event, ToolStarted)}
            finished = {(event.step, event.index) for event in log.events if isinstance(event, ToolFinished)}
            assert started == finished
            result = await (await take_up(log, agent, world)).drive()
        finally:
            trio.lowlevel.remove_instrument(trigger)
        steps = max(steps, trigger.steps)
        assert result.reason is StopReason.FINAL_ANSWER
        assert not result.unknown_effects
    assert left > 10


async def test_a_run_left_anywhere_is_ended_by_the_next_executor(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing in its log says that it ended, nothing stays reserved, and no effect happens twice."""
    left, step, steps = 0, 0, 1
    while step < steps:
        step += 1
        world, log, budget = World(SCRIPT), SessionLog(), Scope("job")
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools(), tool_concurrency=2)
        run = AgentRun(agent, "x", model=world, journal=Executor(log), budget=budget, run="r", wall=wall)
        await run.create()
        trigger = AtStep(step, run.leave)
        trio.lowlevel.add_instrument(trigger)
        try:
            result = await run.drive()
        except RunLeft:
            left += 1
            trio.lowlevel.remove_instrument(trigger)
            assert run.result is None
            assert not any(isinstance(event, RunEnded) for event in log.events)
            assert_nothing_reserved(budget)
            held = log.snapshot()
            assert (run.scope.used, run.scope.unknown) == (held.used, held.unknown)
            result = await (await take_up(log, agent, world)).drive()
        else:
            trio.lowlevel.remove_instrument(trigger)
        steps = max(steps, trigger.steps)
        assert result.ok
        assert_whole_over_lives(log.events)
        assert_transcript_whole(result)
        assert_told_as_driven(log, result)
        assert_effects(world, log.events)
        assert len(set(world.keys)) == len(world.keys)
    assert left > 30


async def test_leaving_tells_the_log_what_is_known(autojump_clock: trio.testing.MockClock) -> None:
    """A call to the model has failed, a call that may not be repeated is unknown, and one that may be stays open."""
    for at, expected in ((0.5, "model"), (1.25, "tools")):
        world, log = World(SCRIPT), SessionLog()
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
        run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
        await run.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_left, run)
            await trio.sleep(at)
            run.leave()
        if expected == "model":
            assert isinstance(log.events[-1], ModelFailed)
            continue
        finished = {e.name: e for e in log.events if isinstance(e, ToolFinished)}
        started = {e.name for e in log.events if isinstance(e, ToolStarted)}
        assert started == {"write", "put", "look"}
        assert finished["write"].outcome == "unknown_effect"
        assert "put" not in finished


async def _left(run: AgentRun) -> None:
    with pytest.raises(RunLeft):
        await run.drive()


async def test_a_run_is_left_while_it_is_queued_or_before(autojump_clock: trio.testing.MockClock) -> None:
    """It has not begun, and gives its place back; whoever takes it up begins it."""
    room = trio.CapacityLimiter(1)
    for borrowed in (False, True):
        world, log = World(in_turn(say("done"))), SessionLog()
        agent = AgentSpec(name="agent", model="scripted")
        run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
        await run.create()
        if borrowed:
            room.acquire_on_behalf_of_nowait("another")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_left_in, run, room)
                await trio.testing.wait_all_tasks_blocked()
                run.leave()
            room.release_on_behalf_of("another")
        else:
            run.leave()
            await _left_in(run, room)
        assert room.borrowed_tokens == 0
        assert len(log.events) == 1
        assert (await (await take_up(log, agent, world)).drive(room)).ok


async def _left_in(run: AgentRun, room: trio.CapacityLimiter) -> None:
    with pytest.raises(RunLeft):
        await run.drive(room)


async def test_a_run_is_left_although_its_log_takes_no_more(autojump_clock: trio.testing.MockClock) -> None:
    """Its executor was overtaken: that is no end of the run, for the next executor has it."""
    world, log = World(SCRIPT), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
    run = AgentRun(agent, "x", model=world, journal=Executor(log, dies_at=4), run="r", wall=wall)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_left, run)
        await trio.sleep(0.5)
        run.leave()
    assert run.result is None


async def test_a_run_that_is_being_cancelled_ends_although_it_is_left(autojump_clock: trio.testing.MockClock) -> None:
    """Its end was decided first, and is written."""
    world, log = World(SCRIPT), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
    run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(1.25)
        run.cancel()
        run.leave()
    assert run.result is not None
    assert run.result.reason is StopReason.CANCELLED
    assert_whole_over_lives(log.events)


async def test_a_cancelled_executor_leaves_what_it_was_told_to_leave(autojump_clock: trio.testing.MockClock) -> None:
    """Once a run is left, cancelling the task that drives it closes nothing any more."""
    world, log = World(SCRIPT), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
    run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(1.25)
        run.leave()
        nursery.cancel_scope.cancel()
    assert not any(isinstance(event, RunEnded) for event in log.events)
    assert (await (await take_up(log, agent, world)).drive()).ok


async def test_a_started_call_that_was_never_made_is_said_to_be_so(autojump_clock: trio.testing.MockClock) -> None:
    """Left between the announcement and the effect: the model is told that it may simply call again."""
    calls: list[str] = []

    async def once() -> str:
        calls.append("once")
        return "ok"

    class Leaving(Executor):
        async def append(self, events: object) -> None:
            await super().append(events)  # type: ignore[arg-type]
            if isinstance(self.log.events[-1], ToolStarted):
                run.leave()

    world, log = World(in_turn(ask_all(("once", {})), say("done"))), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=(Tool(once),), limits=Limits(rounds=3))
    run = AgentRun(agent, "x", model=world, journal=Leaving(log), run="r", wall=wall)
    await run.create()
    await _left(run)
    assert calls == []
    result = await (await take_up(log, agent, world)).drive()
    assert (result.ok, result.unknown_effects, calls) == (True, (), [])
    assert "Make it again if it is still wanted" in result.messages[-2].content


async def test_a_lost_journal_of_a_run_that_nobody_left_is_a_loss(autojump_clock: trio.testing.MockClock) -> None:
    """`RunLeft` is only for runs that were told; whoever did not ask for it learns of the loss."""
    world, log = World(SCRIPT), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
    run = AgentRun(agent, "x", model=world, journal=Executor(log, dies_at=3), run="r", wall=wall)
    await run.create()
    with pytest.raises(JournalLost):
        await run.drive()
