"""What others append to a run's log: it counts from its place in the log on, and decisions are made again."""

from collections.abc import Callable, Sequence

import pytest
import trio
import trio.testing

from agents.amounts import Amounts, Limits
from agents.budget import Reservation
from agents.events import (
    BudgetGranted,
    CancelRequested,
    Event,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from agents.lifecycle import StopReason
from agents.log import Log
from agents.loop import AgentRun
from agents.messages import Message
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

CALLS = in_turn(ask_all(("write", {"text": "a"}), ("put", {"text": "b"})), say("done"))
CANCEL = CancelRequested(run="r", source="user", reason="cancelled")
OTHER = CancelRequested(run="another", source="user", reason="cancelled")


class Interfering(Executor):
    """Somebody else's events come first, just before the first batch with an event that `when` picks."""

    def __init__(self, log: SessionLog, when: Callable[[Event], bool], *events: Event) -> None:
        super().__init__(log)
        self._when = when
        self._events = events

    def before(self, events: Sequence[Event]) -> None:
        if self._events and any(self._when(event) for event in events):
            self.log.outside(*self._events)
            self._events = ()


def start(
    script: Script, when: Callable[[Event], bool], *events: Event, limits: Limits | None = None, latency: float = 1.0
) -> tuple[AgentRun, World, SessionLog]:
    world, log = World(script, latency=latency), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools(), limits=limits or Limits())
    run = AgentRun(agent, "x", model=world, journal=Interfering(log, when, *events), run="r", wall=wall)
    return run, world, log


def check(run: AgentRun, world: World, log: SessionLog) -> None:
    assert run.result is not None
    assert_told_as_driven(log, run.result)
    assert_whole_over_lives(log.events)
    assert_transcript_whole(run.result)
    assert_effects(world, log.events)
    assert_nothing_reserved(run.scope)


@pytest.mark.parametrize("kind", [RunStarted, ModelRequested, ModelReplied, ToolStarted, ToolFinished])
async def test_a_cancellation_that_comes_first_stops_what_was_decided(
    kind: type[Event], autojump_clock: trio.testing.MockClock
) -> None:
    """Sequenced before a request or the start of a tool, it guarantees that neither happens; it is told once."""
    run, world, log = start(CALLS, lambda event: isinstance(event, kind), CANCEL)
    await run.create()
    result = await run.drive()
    place = log.events.index(CANCEL)
    later = log.events[place:]
    assert not any(isinstance(event, ModelRequested | ToolStarted) for event in later)
    assert sum(isinstance(event, CancelRequested) for event in log.events) == 1
    assert (result.reason, result.message) == (StopReason.CANCELLED, "the run was cancelled")
    if kind is ToolStarted:
        assert world.begun == []
    if kind is RunStarted:
        assert world.requests == []
    check(run, world, log)


async def test_what_happened_anyway_is_appended_behind_what_came_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A reply and a tool's result are no decisions: they are kept, whatever came before them."""
    run, world, log = start(CALLS, lambda event: isinstance(event, ModelReplied), CANCEL)
    await run.create()
    await run.drive()
    names = [type(event) for event in log.events]
    assert names[3:5] == [CancelRequested, ModelReplied]
    check(run, world, log)


async def test_events_of_another_run_concern_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """A late cancellation of the session's run before this one cancels nothing."""
    world, log = World(CALLS), SessionLog()
    agent = AgentSpec(name="agent", model="scripted", tools=world.tools())
    first = AgentRun(agent, "x", model=world, journal=Executor(log), run="another", wall=wall)
    await first.create()
    await first.drive()
    journal = Interfering(log, lambda event: isinstance(event, ToolStarted), OTHER)
    second = AgentRun(agent, "y", model=world, journal=journal, run="r", wall=wall, history=log.snapshot())
    await second.create()
    assert (await second.drive()).ok


@pytest.mark.parametrize("kind", [ModelRequested, ModelReplied, ToolStarted, ToolFinished])
async def test_a_message_is_read_with_the_next_request(
    kind: type[Event], autojump_clock: trio.testing.MockClock
) -> None:
    """The request that it precedes in the log has it, at its end, and so has every later one."""
    told = MessageAdded(run="r", content="and quickly")
    run, world, log = start(CALLS, lambda event: isinstance(event, kind), told)
    await run.create()
    result = await run.drive()
    place = log.events.index(told)
    requested = [e for e in log.events[:place] if isinstance(e, ModelRequested)]
    assert world.requests[len(requested)].messages[-1] == Message("user", "and quickly")
    assert sum(m == Message("user", "and quickly") for m in result.messages) == 1
    assert len(world.keys) == len(set(world.keys))
    check(run, world, log)


async def test_a_message_to_a_run_that_is_ending_is_kept_for_the_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It came too late for this run's model; it is in the transcript that the session's next run starts from."""
    told = MessageAdded(run="r", content="wait")
    run, world, log = start(CALLS, lambda event: isinstance(event, RunEnded), told)
    await run.create()
    result = await run.drive()
    assert result.ok
    assert result.messages[-1] == Message("user", "wait")
    check(run, world, log)


async def test_a_grant_counts_for_what_comes_after_it(autojump_clock: trio.testing.MockClock) -> None:
    """A run that one more round would have ended goes on with the rounds it was granted."""
    granted = BudgetGranted(run="r", limits=Limits(rounds=4))
    run, world, log = start(
        in_turn(ask("look")),
        lambda event: isinstance(event, ToolStarted),
        granted,
        limits=Limits(rounds=1, tokens=10**6),
    )
    await run.create()
    result = await run.drive()
    assert (result.reason, result.rounds, result.allowed) == (StopReason.MAX_ROUNDS, 4, 4)
    assert run.scope.limits == Limits(rounds=4, tokens=10**6)
    check(run, world, log)


async def test_a_request_that_a_budget_shortened_is_made_again_with_the_grant(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The grant comes before the request in the log, so the request may be as long as it allows."""
    granted = BudgetGranted(run="r", limits=Limits(tokens=10**6))
    run, world, log = start(
        in_turn(say("done")), lambda event: isinstance(event, ModelRequested), granted, limits=Limits(tokens=3_000)
    )
    await run.create()
    assert (await run.drive()).ok
    requested = next(event for event in log.events if isinstance(event, ModelRequested))
    assert (requested.max_tokens, requested.shrunk_by) == (4096, None)
    assert world.requests[0].max_tokens == 4096
    check(run, world, log)


async def test_more_time_is_granted_to_a_call_under_way(autojump_clock: trio.testing.MockClock) -> None:
    """A model call that its old deadline ended is made again; the run has the time that it was granted."""
    run, world, log = start(in_turn(say("done")), lambda event: False, limits=Limits(timeout=10), latency=15)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(5)
        granted = BudgetGranted(run="r", limits=Limits(timeout=60))
        log.outside(granted)
        run.receive([granted])
    assert run.result is not None
    assert run.result.ok
    assert [e.kind for e in log.events if isinstance(e, ModelFailed)] == ["call_timeout"]
    assert world.keys == ["r/1/1", "r/1/2"]
    check(run, world, log)


async def test_a_grant_wakes_a_run_that_waits_for_its_own_budget(autojump_clock: trio.testing.MockClock) -> None:
    """Held up by what its own budget has reserved, it goes on as soon as the grant makes room."""
    run, world, log = start(in_turn(say("done")), lambda event: False, limits=Limits(tokens=20_000))
    held = run.scope.reserve(Amounts(tokens=19_500))
    assert isinstance(held, Reservation)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(5)
        assert world.requests == []
        granted = BudgetGranted(run="r", limits=Limits(tokens=10**6))
        log.outside(granted)
        run.receive([granted])
    assert trio.current_time() == 6
    held.release()
    check(run, world, log)


@pytest.mark.parametrize("at", [0.5, 1.25])
async def test_a_cancellation_that_is_received_cuts_off_what_is_open(
    at: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The run is told at once and does not wait for its next append; its log has the cancellation once."""
    run, world, log = start(CALLS, lambda event: False)
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(at)
        log.outside(CANCEL)
        run.receive([CANCEL])
        run.receive([CANCEL])
    assert trio.current_time() == at
    assert run.result is not None
    assert run.result.reason is StopReason.CANCELLED
    assert sum(isinstance(event, CancelRequested) for event in log.events) == 1
    check(run, world, log)


async def test_what_came_while_nobody_drove_it_is_known_to_the_next_executor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A message and a grant in the log of a run that was left open are in force when it is taken up; so is the end."""
    told, granted = MessageAdded(run="r", content="hurry"), BudgetGranted(run="r", limits=Limits(rounds=9))
    for cancelled in (False, True):
        run, world, log = start(CALLS, lambda event: False, limits=Limits(rounds=1))
        await run.create()
        log.outside(told, granted, *([CANCEL] if cancelled else []))
        agent = AgentSpec(name="agent", model="scripted", tools=world.tools(), limits=Limits(rounds=1))
        again = await take_up(log, agent, world)
        result = await again.drive()
        assert again.scope.limits.rounds == 9
        if cancelled:
            assert (result.reason, world.requests) == (StopReason.CANCELLED, [])
        else:
            assert result.ok
            assert world.requests[0].messages[-1].content == "hurry"
        check(again, world, log)


async def test_the_log_decides_again_after_every_newcomer() -> None:
    """An append that newcomers forbid is not made; one that they don't is made behind them, and all are counted."""
    log, received = SessionLog(), []
    journal = Interfering(log, lambda event: isinstance(event, ToolStarted), CANCEL, OTHER)
    mine = Log(journal, number=7)
    mine.receive = received.extend
    started = ToolStarted(run="r", step=1, index=0, call="c", name="n", key="k")
    assert await mine.append(RunStarted(run="r"), unless=lambda: bool(received))
    assert not await mine.append(started, unless=lambda: bool(received))
    assert received == [CANCEL, OTHER]
    assert await mine.append(started)
    assert mine.number == 7 + 1 + 2 + 1
    assert log.events == (RunStarted(run="r"), CANCEL, OTHER, started)
