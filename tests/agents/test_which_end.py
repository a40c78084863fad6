"""Several ends close together: a cancel, a deadline, an expiry, an error. Which one is recorded."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.errors import (
    Unavailable,
)
from agents.events import CancelRequested
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.loop import AgentRun, run_agent
from agents.messages import ModelReply, ModelRequest
from agents.port import Priority, Receipt
from agents.scripted import ScriptedModel, in_turn, say
from agents.spec import AgentSpec
from tests.agents.whole import assert_whole

AGENT = AgentSpec(name="agent", model="scripted")


async def test_expiry_and_timeout_are_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    """Whichever clock runs out first names the reason."""
    for timeout, expiry, reason in ((1, 2, "timeout"), (2, 1, "expired")):
        result = await run_agent(
            AgentSpec(name="agent", model="scripted", limits=Limits(timeout=timeout)),
            "x",
            model=ScriptedModel(in_turn(say("x")), latency=10),
            journal=MemoryJournal(),
            expiry=trio.current_time() + expiry,
        )
        assert result.reason == reason


class Deaf:
    """A model client that turns a cancellation into an error of its own, as some do."""

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = 0,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise Unavailable("the connection was lost") from cancelled
        raise AssertionError


@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
async def test_a_model_error_after_a_cancel_is_the_cancel(reason: Any, autojump_clock: trio.testing.MockClock) -> None:
    """Taking the run away is the reason, not the error that it caused."""
    journal = MemoryJournal()
    agent_run = AgentRun(AGENT, "x", model=Deaf(), journal=journal)
    await agent_run.create()

    async def take_away() -> None:
        await trio.sleep(1)
        assert agent_run.state is State.WAITING_MODEL
        agent_run.cancel(reason)
        assert agent_run.state is State.CANCELLING
        agent_run.cancel("cancelled")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_away)
        result = await agent_run.drive()
    assert (result.reason, result.state) == (reason, State.CANCELLED)
    assert_whole(journal.events)
    sources = [(e.source, e.reason) for e in journal.events if isinstance(e, CancelRequested)]
    assert sources == [("user", reason)]


@pytest.mark.parametrize("model", [Deaf(), ScriptedModel(in_turn(say("x")), latency=100)])
async def test_a_parents_cancel_goes_before_the_runs_own_deadline(
    model: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """Both at the same instant: the run is closed as cancelled, and the cancellation goes on outward."""
    journal = MemoryJournal()
    agent = AgentSpec(name="agent", model="scripted", limits=Limits(timeout=5))
    with trio.move_on_after(5) as parent:
        await run_agent(agent, "x", model=model, journal=journal)
        pytest.fail("the parent's cancellation was swallowed")
    assert parent.cancelled_caught
    assert_whole(journal.events)
    ended: Any = journal.events[-1]
    assert ended.reason is StopReason.CANCELLED
