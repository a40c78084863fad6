"""A run's clocks go on while nobody drives it."""

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.origin import Origin
from agents.scripted import ask, in_turn, say
from agents.spec import AgentSpec
from tests.agents.lives import (
    Executor,
    SessionLog,
    World,
    assert_told_as_driven,
    assert_whole_over_lives,
    take_up,
    wall,
)


async def test_downtime_counts_and_a_restart_grants_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """The timeout runs from the first running by the wall clock, through a restart and the time until it."""
    script = in_turn(ask("write", {"text": "a"}), ask("look"), say("done"))
    for down, reason in ((96.9, StopReason.FINAL_ANSWER), (97, StopReason.TIMEOUT), (500, StopReason.TIMEOUT)):
        world, log = World(script, latency=0.9), SessionLog()
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools(), limits=Limits(timeout=100))
        run = AgentRun(agent, "x", model=world, journal=Executor(log, dies_at=5), run="r", wall=wall)
        await run.create()
        began = trio.current_time()
        with pytest.raises(JournalLost):
            await run.drive()
        await trio.sleep_until(began + down)
        run = await take_up(log, agent, world)
        result = await run.drive()
        assert result.reason is reason
        if reason is StopReason.TIMEOUT:
            assert trio.current_time() == pytest.approx(began + max(down, 100))
        assert_told_as_driven(log, result)


async def test_expiry_is_a_time_of_day(autojump_clock: trio.testing.MockClock) -> None:
    """A run whose expiry passed while nobody drove it ends as expired, whether it had begun or not."""
    for dies_at in (2, 4):
        world, log = World(in_turn(ask("look"), say("done"))), SessionLog()
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
        run = AgentRun(
            agent,
            "x",
            model=world,
            journal=Executor(log, dies_at=dies_at),
            run="r",
            wall=wall,
            expiry=trio.current_time() + 60,
            origin=Origin(expiry=wall() + 60),
        )
        await run.create()
        with pytest.raises(JournalLost):
            await run.drive()
        await trio.sleep(61)
        result = await (await take_up(log, agent, world)).drive()
        assert result.reason is StopReason.EXPIRED
        assert_whole_over_lives(log.events)
