"""Successive runs of one session: each starts from the transcript that the one before it left."""

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.events import MessageAdded, RunCreated
from agents.lifecycle import StopReason
from agents.loop import AgentRun
from agents.messages import Message
from agents.origin import CannotContinue, Origin
from agents.port import Priority
from agents.scripted import ask, in_turn, say
from agents.spec import AgentSpec
from tests.agents.lives import Executor, SessionLog, World, assert_told_as_driven, take_up, wall


def agent_of(world: World, limits: Limits | None = None) -> AgentSpec:
    return AgentSpec(
        name="agent",
        model="scripted",
        system="be brief",
        tools=world.tools(),
        limits=limits or Limits(),
        demonstration=(Message("user", "1+1"), say("2")),
    )


async def one_run(log: SessionLog, world: World, run: str, task: str, agent: AgentSpec) -> AgentRun:
    history = log.snapshot() if log.records else None
    made = AgentRun(
        agent, task, model=world, journal=Executor(log), run=run, wall=wall, history=history, number=len(log.records)
    )
    await made.create()
    await made.drive()
    assert made.result is not None
    assert_told_as_driven(log, made.result)
    return made


async def test_a_further_run_adds_only_what_is_new(autojump_clock: trio.testing.MockClock) -> None:
    """Its first event holds the new task; the model gets the whole talk; rounds and money start at nothing."""
    world, log = World(in_turn(ask("look"), say("done"))), SessionLog()
    first = await one_run(log, world, "r1", "one", agent_of(world))
    second = await one_run(log, world, "r2", "two", agent_of(world))
    created = [event for event in log.events if isinstance(event, RunCreated)]
    assert created[0].messages[-1] == Message("user", "one")
    assert (created[0].opening, created[1].messages) == (3, (Message("user", "two"),))
    assert first.result is not None
    assert second.result is not None
    assert world.requests[2].messages == (*first.result.messages, Message("user", "two"))
    assert (second.result.rounds, second.result.tool_calls) == (2, 1)


async def test_a_run_that_a_limit_stopped_goes_on_without_a_new_task(autojump_clock: trio.testing.MockClock) -> None:
    """An empty task goes on where the last run stopped, with a grant of its own; the transcript has no gap."""
    world, log = World(in_turn(ask("look"), ask("look"), say("done"))), SessionLog()
    first = await one_run(log, world, "r1", "one", agent_of(world, Limits(rounds=2)))
    assert first.result is not None
    assert first.result.reason is StopReason.MAX_ROUNDS
    second = await one_run(log, world, "r2", "", agent_of(world, Limits(rounds=10)))
    assert second.result is not None
    assert (second.result.answer, second.result.rounds) == ("done", 1)
    assert second.result.messages[: len(first.result.messages)] == first.result.messages


async def test_nothing_is_left_to_do_behind_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    """Going on without a task behind a final answer is refused, unless somebody has said something since."""
    world, log = World(in_turn(say("done"))), SessionLog()
    await one_run(log, world, "r1", "one", agent_of(world))
    with pytest.raises(CannotContinue, match="run r1 ended with an answer: say what comes next"):
        await one_run(log, world, "r2", "", agent_of(world))
    log.outside(MessageAdded(run="r1", content="one more thing"))
    second = await one_run(log, world, "r2", "", agent_of(world))
    assert second.result is not None
    assert world.requests[-1].messages[-1].content == "one more thing"


async def test_only_the_sessions_agent_goes_on_and_only_behind_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """Another agent is refused, and so is a run beside one that is open."""
    world, log = World(in_turn(say("done"))), SessionLog()
    await one_run(log, world, "r1", "one", agent_of(world))
    other = AgentSpec(name="other", model="scripted")
    with pytest.raises(CannotContinue, match="agent agent's, so agent other cannot go on"):
        AgentRun(other, "x", model=world, journal=Executor(log), history=log.snapshot())
    open_log = SessionLog(log.events[:2])
    with pytest.raises(CannotContinue, match="still open"):
        AgentRun(agent_of(world), "x", model=world, journal=Executor(open_log), history=open_log.snapshot())


async def test_the_first_event_says_what_the_next_executor_needs(autojump_clock: trio.testing.MockClock) -> None:
    """Session, tenant, job, who, expiry and priority are in it, and the priority is that of the run taken up."""
    world, log = World(in_turn(say("done"))), SessionLog()
    origin = Origin(session="s", tenant="acme", job="j", who='{"agent":"agent"}', expiry=wall() + 10)
    run = AgentRun(
        agent_of(world),
        "x",
        model=world,
        journal=Executor(log),
        run="r",
        wall=wall,
        origin=origin,
        priority=Priority.BATCH,
    )
    await trio.sleep(3)
    await run.create()
    created = log.events[0]
    assert isinstance(created, RunCreated)
    assert (created.session, created.tenant, created.job, created.who) == ("s", "acme", "j", '{"agent":"agent"}')
    assert (created.expiry, created.priority, created.at) == (origin.expiry, 2, wall())
    again = await take_up(log, agent_of(world), world)
    assert again.progress.priority is Priority.BATCH
    assert again.progress.expiry == 10


async def test_a_further_run_is_taken_up_like_the_first(autojump_clock: trio.testing.MockClock) -> None:
    """Cut off after any of its events, the session's second run ends as it would have."""
    world, log = World(in_turn(ask("look"), say("done"))), SessionLog()
    agent = agent_of(world)
    await one_run(log, world, "r1", "one", agent)
    before = len(log.records)
    second = await one_run(log, world, "r2", "two", agent)
    assert second.result is not None
    for kept in range(before + 1, len(log.records)):
        cut, other = SessionLog(log.events[:kept]), World(in_turn(ask("look"), say("done")))
        result = await (await take_up(cut, agent_of(other), other)).drive()
        assert (result.run, result.messages) == ("r2", second.result.messages)
        assert_told_as_driven(cut, result)
