"""Calls that people must approve: asked about at once, started only on their word, in whatever order it comes."""

import itertools

import pytest
import trio
import trio.testing

from agents.amounts import NOTHING, Limits
from agents.answered import digest_of
from agents.budget import Scope
from agents.events import ApprovalRequested, ToolFinished, ToolRefused, ToolStarted
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.loop import AgentRun, run_agent
from agents.messages import ToolCall
from agents.requests import NobodyToAsk
from agents.scripted import ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from tests.agents.lives import Executor, SessionLog, assert_told_as_driven, assert_whole_over_lives, take_up, wall
from tests.agents.people import (
    AskedWorld,
    agent_of,
    assert_people_had_their_say,
    begin,
    decided,
    go_on,
    keys,
    names,
    parked,
    until_parked,
)
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole

PAY = in_turn(ask("pay", {"text": "rent"}), say("done"))
THREE = in_turn(
    ask_all(("pay", {"text": "a"}), ("pay", {"text": "b"}), ("put", {"text": "much"}), ("put", {"text": "little"})),
    say("done"),
)


async def test_what_is_approved_runs_with_that_approval(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing of it happens before; people see the call as the model wrote it; its start names the approval."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    (asked,) = log.snapshot().asked
    assert isinstance(asked, ApprovalRequested)
    assert (asked.name, asked.arguments, asked.why, asked.expires) == ("pay", '{"text":"rent"}', "always", None)
    assert world.begun == []
    result = await go_on(log, world, decided("r/1/0", digest=asked.digest))
    started = next(event for event in log.events if isinstance(event, ToolStarted))
    assert (started.key, started.approval) == ("r/1/0", "r/1/0")
    assert (result.ok, result.tool_calls, world.begun) == (True, 1, [("r/1/0", "rent")])
    assert_told_as_driven(log, result)
    assert_whole_over_lives(log.events)


@pytest.mark.parametrize(
    ("decision", "note", "told"),
    [
        ("denied", "", "Not run: ann denied it."),
        ("denied", "too dear.", "Not run: ann denied it, saying: too dear."),
        ("expired", "", "Not run: nobody approved it in time."),
    ],
)
async def test_what_is_not_approved_is_an_observation(
    decision: str, note: str, told: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The model reads who denied it and why, or that nobody decided in time; the run goes on, and nothing was spent."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    result = await go_on(log, world, decided("r/1/0", decision, note=note), on_tool_error="stop")
    refused = next(event for event in log.events if isinstance(event, ToolRefused))
    assert (refused.outcome, refused.content) == ("denied", told)
    assert (result.ok, result.tool_calls, world.begun) == (True, 0, [])
    assert_told_as_driven(log, result)


async def test_an_approval_that_came_too_late_lets_nothing_run(autojump_clock: trio.testing.MockClock) -> None:
    """By the clock in the log it had expired, whoever forgot to say so."""
    world = AskedWorld(PAY, expires_in=60)
    log = await until_parked(world)
    (asked,) = log.snapshot().asked
    assert asked.expires == asked.at + 60
    await trio.sleep(61)
    result = await go_on(log, world, decided("r/1/0"))
    assert (result.ok, world.begun) == (True, [])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_parallel_approvals_come_in_any_order(
    order: tuple[int, ...], autojump_clock: trio.testing.MockClock
) -> None:
    """Each is of its own call: answered alone it runs while the others wait; what needs none ran before."""
    world = AskedWorld(THREE)
    log = await until_parked(world)
    assert [text for _, text in world.begun] == ["little"]
    assert names(log)[4:7] == ["approval_requested"] * 3
    for count, index in enumerate(order, 1):
        assert len(keys(log.snapshot())) == 4 - count
        log.outside(decided(f"r/1/{index}", "denied" if index == 1 else "approved"))
        run = await take_up(log, agent_of(world), world)
        if count < 3:
            await parked(run)
        else:
            assert (await run.drive()).ok
    texts = {0: "a", 2: "much"}
    assert [text for _, text in world.begun] == ["little", *(texts[index] for index in order if index != 1)]
    assert log.snapshot().tool_calls == 3
    assert_people_had_their_say(log.events)
    assert_whole_over_lives(log.events)


async def test_decided_together_they_run_together(autojump_clock: trio.testing.MockClock) -> None:
    """Two approvals that are there when the run is taken up start two calls at once."""
    world = AskedWorld(THREE)
    log = await until_parked(world)
    began = trio.current_time()
    result = await go_on(log, world, *(decided(f"r/1/{index}") for index in (2, 0, 1)))
    assert (result.ok, trio.current_time() - began) == (True, 2.0)  # one call, and one of the model


async def test_the_first_decision_counts(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever comes second changes nothing: a denial behind an approval is evidence, and the other way round."""
    for first, second in (("approved", "denied"), ("denied", "approved")):
        world = AskedWorld(PAY)
        log = await until_parked(world)
        await go_on(log, world, decided("r/1/0", first, by="ann"), decided("r/1/0", second, by="bob"))
        assert bool(world.begun) == (first == "approved")
        assert names(log).count("approval_decided") == 2


async def test_a_decision_about_other_arguments_is_none(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever approves says what; an approval of anything else leaves the question open."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    other = digest_of(ToolCall("c", "pay", '{"text":"a yacht"}'))
    log.outside(decided("r/1/0", digest=other), decided("r/1/9"), decided("r/2/0"))
    await parked(await take_up(log, agent_of(world), world))
    assert (keys(log.snapshot()), world.begun) == (["r/1/0"], [])


async def test_changed_arguments_are_a_new_proposal(autojump_clock: trio.testing.MockClock) -> None:
    """An approval is used once, by its own call: the same tool asked for again is asked about again."""
    world = AskedWorld(in_turn(ask("pay", {"text": "a"}), ask("pay", {"text": "b"}), say("done")))
    log = await until_parked(world)
    log.outside(decided("r/1/0"))
    await parked(await take_up(log, agent_of(world), world))
    assert (keys(log.snapshot()), world.begun) == (["r/2/0"], [("r/1/0", "a")])


async def test_an_approval_is_used_while_other_calls_run(autojump_clock: trio.testing.MockClock) -> None:
    """The run is driven on: what is approved starts beside what runs, and the run never waits for people alone."""
    world = AskedWorld(in_turn(ask_all(("write", {"text": "a"}), ("pay", {"text": "b"})), say("done")))
    log = SessionLog()
    run = await begin(world, Executor(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(2)
        assert run.state is State.WAITING_TOOL
        assert keys(log.snapshot()) == ["r/1/1"]
        event = decided("r/1/1")
        log.outside(event)
        run.receive([event])
        await trio.sleep(0.5)
        assert world.begun == [("r/1/0", "a"), ("r/1/1", "b")]
    assert run.result is not None
    assert run.result.ok
    assert "run_waiting" not in names(log)
    assert_told_as_driven(log, run.result)


async def test_what_is_heard_first_is_not_what_came_first(autojump_clock: trio.testing.MockClock) -> None:
    """Told of an approval before it hears of the denial that is in the log before it, the run starts nothing."""
    world = AskedWorld(in_turn(ask_all(("write", {"text": "a"}), ("pay", {"text": "b"})), say("done")))
    log = SessionLog()
    run = await begin(world, Executor(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(2)
        approval = decided("r/1/1", by="bob")
        log.outside(decided("r/1/1", "denied"), approval)
        run.receive([approval])
    assert world.begun == [("r/1/0", "a")]
    assert run.result is not None
    assert_told_as_driven(log, run.result)
    assert_people_had_their_say(log.events)


async def test_a_denial_that_is_heard_first_does_not_undo_an_approval(autojump_clock: trio.testing.MockClock) -> None:
    """The other way round: what is in the log first is done."""
    world = AskedWorld(in_turn(ask_all(("write", {"text": "a"}), ("pay", {"text": "b"})), say("done")))
    log = SessionLog()
    run = await begin(world, Executor(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(2)
        denial = decided("r/1/1", "denied", by="bob")
        log.outside(decided("r/1/1"), denial)
        run.receive([denial])
    assert world.begun == [("r/1/0", "a"), ("r/1/1", "b")]


async def test_waiting_holds_nothing_of_the_budget(autojump_clock: trio.testing.MockClock) -> None:
    """A call that waits is not paid for; it is when it is approved, and refused if by then nothing is left."""
    world, job = AskedWorld(THREE), Scope("job", Limits(tool_calls=3))
    log = SessionLog()
    run = AgentRun(agent_of(world), "x", model=world, journal=Executor(log), run="r", wall=wall, budget=job)
    await run.create()
    await parked(run)
    assert (job.used.tool_calls, run.scope.used.tool_calls, log.snapshot().used.tool_calls) == (0, 0, 0)
    assert job.reserved == NOTHING
    spent = Scope("job", Limits(tool_calls=1))
    log.outside(decided("r/1/0"), decided("r/1/1"), decided("r/1/2"))
    result = await (await take_up(log, agent_of(world), world, budget=spent)).drive()
    assert (result.reason, len(world.begun)) == (StopReason.MAX_TOOL_CALLS, 1)
    assert_nothing_reserved(spent)
    assert_transcript_whole(result)
    assert_told_as_driven(log, result)


async def test_nobody_is_asked_what_no_budget_allows(autojump_clock: trio.testing.MockClock) -> None:
    """Calls of one reply are paid for in the model's order, so the second of two is refused where one is allowed."""
    world = AskedWorld(in_turn(ask_all(("pay", {"text": "a"}), ("pay", {"text": "b"})), say("done")))
    log = await until_parked(world, limits=Limits(tool_calls=1))
    assert keys(log.snapshot()) == ["r/1/0"]
    result = await go_on(log, world, decided("r/1/0", "denied"), limits=Limits(tool_calls=1))
    assert result.reason is StopReason.MAX_TOOL_CALLS


async def test_a_wrong_call_that_ends_the_run_asks_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """Where a call that does not fit its tool stops the run, no person's time is taken."""
    world = AskedWorld(in_turn(ask_all(("pay", {"text": "a"}), ("pay", {"text": 1})), say("done")))
    log = SessionLog()
    result = await (await begin(world, Executor(log), on_tool_error="stop")).drive()
    assert result.reason is StopReason.TOOL_ERROR
    assert "approval_requested" not in names(log)


async def test_a_tool_that_is_gone_when_it_is_approved_is_unknown(autojump_clock: trio.testing.MockClock) -> None:
    """The agent was configured anew while people thought: what they approved does not run as something else."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    log.outside(decided("r/1/0"))
    spec = AgentSpec(name="agent", model="scripted", tools=tuple(t for t in world.tools() if t.name != "pay"))
    result = await (await take_up(log, spec, world)).drive()
    refused = next(event for event in log.events if isinstance(event, ToolRefused))
    assert (refused.outcome, result.ok, world.begun) == ("unknown_tool", True, [])


async def test_a_failing_call_leaves_the_others_unasked_for_good(autojump_clock: trio.testing.MockClock) -> None:
    """Where a failed call stops the run, what waited for approval is answered as not started, and void."""

    async def broken() -> str:
        await trio.sleep(1)
        raise OSError("disk on fire")

    world = AskedWorld(in_turn(ask_all(("pay", {"text": "a"}), ("broken", {})), say("done")))
    agent = AgentSpec(name="agent", model="scripted", tools=(*world.tools(), Tool(broken)), on_tool_error="stop")
    log = SessionLog()
    run = AgentRun(agent, "x", model=world, journal=Executor(log), run="r", wall=wall)
    await run.create()
    result = await run.drive()
    assert (result.reason, log.snapshot().asked) == (StopReason.TOOL_ERROR, ())
    ends = [event for event in log.events if isinstance(event, ToolRefused | ToolFinished)]
    assert [event.outcome for event in ends] == ["error", "not_started"]
    assert_told_as_driven(log, result)


async def test_where_nobody_can_answer_nothing_is_created() -> None:
    """A run in a program of its own would wait for ever, so it is refused with what would be right."""
    world, journal = AskedWorld(PAY), MemoryJournal()
    for tools in (world.tools()[:1], world.tools()[-1:]):
        agent = AgentSpec(name="agent", model="scripted", tools=tools)
        with pytest.raises(NobodyToAsk, match=f"tool {tools[0].name} of agent agent .* run it through a daemon"):
            await run_agent(agent, "x", model=world, journal=journal)
    assert len(journal) == 0
