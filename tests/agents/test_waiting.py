"""A run that waits for people: what it holds, what ends the wait, and whose time it is."""

from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.events import (
    ApprovalRequested,
    BudgetGranted,
    CancelRequested,
    Event,
    MessageAdded,
    RunResumed,
    RunWaiting,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from agents.lifecycle import State, StopReason
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.origin import Origin, RunLeft, RunParked
from agents.scripted import ask, ask_all, in_turn, say
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

PAY = in_turn(ask("pay", {"text": "rent"}), say("done"))
BESIDE = in_turn(ask_all(("write", {"text": "a"}), ("pay", {"text": "b"})), say("done"))
CANCEL = CancelRequested(run="r", source="user", reason="cancelled")


async def test_a_parked_run_gives_back_its_place(autojump_clock: trio.testing.MockClock) -> None:
    """Its place among live runs is free while it waits, its log ends with that, and its state says for whom."""
    log, room, world = SessionLog(), trio.CapacityLimiter(1), AskedWorld(PAY)
    run = await begin(world, Executor(log))
    with pytest.raises(RunParked):
        await run.drive(room)
    assert room.borrowed_tokens == 0
    assert (run.state, run.result) == (State.WAITING_APPROVAL, None)
    assert isinstance(log.events[-1], RunWaiting)
    snapshot = log.snapshot()
    assert (snapshot.waiting, snapshot.waiting_since, snapshot.waited) == (("approval",), wall(), 0)


async def test_a_wait_counts_to_no_timeout(autojump_clock: trio.testing.MockClock) -> None:
    """A day of thinking leaves a run all the time it had; only what it works itself is counted, over several waits."""
    world = AskedWorld(in_turn(ask("pay", {"text": "a"}), ask("pay", {"text": "b"}), say("done")))
    limits = Limits(timeout=10)
    log = await until_parked(world, limits=limits)
    for step in (1, 2):
        await trio.sleep(86_400)
        log.outside(decided(f"r/{step}/0"))
        await trio.sleep(2)  # nobody takes it up for a while, and that counts
        run = await take_up(log, agent_of(world, limits=limits), world)
        if step == 1:
            await parked(run)
    result = await run.drive()
    assert (result.ok, log.snapshot().waited) == (True, 2 * 86_400)
    assert run.scope.started == trio.current_time() - 3 - 2 - 4  # the model, the tools, the downtime


async def test_a_run_that_is_taken_up_for_nothing_waits_on(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever made somebody take it up: it says that it waits again, and the time in between is the wait's."""
    world, limits = AskedWorld(PAY), Limits(timeout=10)
    log = await until_parked(world, limits=limits)
    for _ in range(5):
        await trio.sleep(80)
        run = await take_up(log, agent_of(world, limits=limits), world)
        assert run.scope.started == trio.current_time() - 1
        await parked(run)
    assert log.snapshot().waited == 400
    assert log.snapshot().resumes == 0
    assert (await go_on(log, world, decided("r/1/0"), limits=limits)).ok


async def test_a_timeout_counts_while_other_calls_run(autojump_clock: trio.testing.MockClock) -> None:
    """Waiting beside work is no wait: the run's time is over when it is, and the request is void."""
    world, log = AskedWorld(BESIDE), SessionLog()
    result = await (await begin(world, Executor(log), limits=Limits(timeout=3))).drive()
    assert (result.reason, keys(log.snapshot())) == (StopReason.TIMEOUT, [])
    assert_told_as_driven(log, result)


async def test_time_in_which_it_could_go_on_is_its_own(autojump_clock: trio.testing.MockClock) -> None:
    """Answered in part and then left lying for longer than it had, it ends, and does not ask on."""
    world = AskedWorld(in_turn(ask_all(("pay", {"text": "a"}), ("pay", {"text": "b"})), say("done")))
    limits = Limits(timeout=10)
    log = await until_parked(world, limits=limits)
    log.outside(decided("r/1/0", "denied"))
    await trio.sleep(20)
    result = await (await take_up(log, agent_of(world, limits=limits), world)).drive()
    assert (result.reason, log.snapshot().asked) == (StopReason.TIMEOUT, ())
    assert_told_as_driven(log, result)


async def test_an_expired_run_does_not_come_back(autojump_clock: trio.testing.MockClock) -> None:
    """What it does not count to its timeout it counts to its expiry: approved after that, it starts nothing."""
    world, log = AskedWorld(PAY), SessionLog()
    origin = Origin(expiry=wall() + 60)
    run = AgentRun(
        agent_of(world), "x", model=world, journal=Executor(log), run="r", wall=wall, origin=origin, expiry=60
    )
    await run.create()
    await parked(run)
    await trio.sleep(61)
    result = await go_on(log, world, decided("r/1/0"))
    assert (result.reason, world.begun) == (StopReason.EXPIRED, [])


@pytest.mark.parametrize(
    "word", [MessageAdded(run="r", content="hurry"), BudgetGranted(run="r", limits=Limits(rounds=9))]
)
async def test_what_is_said_while_it_waits_is_kept(word: Event, autojump_clock: trio.testing.MockClock) -> None:
    """A message or a grant is taken in and the run waits on; the model reads the message behind the call's result."""
    world = AskedWorld(lambda told: say("done") if told[-1:] != told[:1] else ask("pay", {"text": "rent"}))
    log = await until_parked(world)
    log.outside(word)
    await parked(await take_up(log, agent_of(world), world))
    result = await go_on(log, world, decided("r/1/0"))
    assert result.ok
    if isinstance(word, MessageAdded):
        assert [message.role for message in world.requests[-1].messages] == ["user", "assistant", "tool", "user"]
    assert_told_as_driven(log, result)


async def test_cancelling_voids_what_was_asked(autojump_clock: trio.testing.MockClock) -> None:
    """The call is answered as not started, and an approval that comes after the cancellation is evidence."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    log.outside(CANCEL)
    assert log.snapshot().asked == ()
    result = await go_on(log, world, decided("r/1/0"))
    refused = next(event for event in log.events if isinstance(event, ToolRefused))
    assert (result.reason, refused.outcome, world.begun) == (StopReason.CANCELLED, "not_started", [])
    assert_told_as_driven(log, result)
    assert_whole_over_lives(log.events)


async def test_an_approved_call_does_not_start_behind_a_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    """Approved, then cancelled, and only then taken up: the cancellation came before the start."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    result = await go_on(log, world, decided("r/1/0"), CANCEL)
    assert (result.reason, world.begun) == (StopReason.CANCELLED, [])


class Meanwhile(Executor):
    """Somebody's events come just before the first batch that begins with an event of this kind, or just behind it."""

    def __init__(self, log: SessionLog, kind: type[Event], *events: Event, behind: bool = False) -> None:
        super().__init__(log)
        self._kind, self._events, self._behind = kind, events, behind
        self.run: AgentRun | None = None

    async def append(self, events: Any) -> None:
        mine = bool(self._events) and isinstance(events[0], self._kind)
        said = self._events if mine else ()
        if said and not self._behind:
            self._events = ()
            self.log.outside(*said)
        await super().append(events)
        if said and self._behind:
            self._events = ()
            self.log.outside(*said)
            if self.run is not None:
                self.run.receive(said)


@pytest.mark.parametrize("behind", [False, True])
async def test_a_decision_at_the_last_moment_is_not_slept_through(
    behind: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """It comes just as the run says that it waits: the run goes on with it, and is not parked."""
    world, log = AskedWorld(PAY), SessionLog()
    journal = Meanwhile(log, RunWaiting, decided("r/1/0"), behind=behind)
    run = journal.run = await begin(world, journal)
    result = await run.drive()
    assert result.ok
    assert names(log).count("run_waiting") == int(behind)
    assert_told_as_driven(log, result)
    assert_people_had_their_say(log.events)


@pytest.mark.parametrize("behind", [False, True])
async def test_a_cancellation_at_the_last_moment_is_heard(behind: bool, autojump_clock: trio.testing.MockClock) -> None:
    """It comes just as the run says that it waits: the run ends."""
    world, log = AskedWorld(PAY), SessionLog()
    journal = Meanwhile(log, RunWaiting, CANCEL, behind=behind)
    run = journal.run = await begin(world, journal)
    result = await run.drive()
    assert result.reason is StopReason.CANCELLED
    assert_told_as_driven(log, result)


@pytest.mark.parametrize("behind", [False, True])
async def test_nobody_is_asked_behind_a_cancellation(behind: bool, autojump_clock: trio.testing.MockClock) -> None:
    """Cancelled just before it would have asked, the run asks nothing; just behind it, what was asked is void."""
    world, log = AskedWorld(PAY), SessionLog()
    journal = Meanwhile(log, ApprovalRequested, CANCEL, behind=behind)
    run = journal.run = await begin(world, journal)
    result = await run.drive()
    assert (result.reason, "approval_requested" in names(log)) == (StopReason.CANCELLED, behind)
    assert log.snapshot().asked == ()
    assert_told_as_driven(log, result)


async def test_what_is_spent_meanwhile_does_not_end_the_wait(autojump_clock: trio.testing.MockClock) -> None:
    """Others of the job used up its calls: people are still asked, since by their answer there may be more."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    await parked(await take_up(log, agent_of(world), world, budget=Scope("job", Limits(tool_calls=0))))
    assert keys(log.snapshot()) == ["r/1/0"]
    assert (await go_on(log, world, decided("r/1/0"))).ok


async def test_a_denial_just_before_the_start_stops_it(autojump_clock: trio.testing.MockClock) -> None:
    """Heard as approved, but the log has a denial first: what is heard is not what counts."""
    world, log = AskedWorld(BESIDE), SessionLog()

    class Late(Executor):
        def before(self, events: Any) -> None:
            if isinstance(events[0], ToolStarted) and events[0].name == "pay" and self.known == len(self.log.records):
                self.log.outside(decided("r/1/1", "denied"), decided("r/1/1"))

    run = await begin(world, Late(log))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(2)
        run.receive([decided("r/1/1")])  # not in the log yet: a hint that ran ahead
    assert world.begun == [("r/1/0", "a")]
    assert run.result is not None
    assert run.result.ok
    assert_told_as_driven(log, run.result)


@pytest.mark.parametrize("dies_at", range(2, 7))
@pytest.mark.parametrize("late", [False, True])
async def test_killed_anywhere_it_asks_once_and_runs_once(
    dies_at: int, late: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Before or behind any append until it waits: the next executor asks what was not asked, and nothing runs twice."""
    world, log = AskedWorld(in_turn(ask_all(("look", {}), ("pay", {"text": "b"})), say("done"))), SessionLog()
    run = await begin(world, Executor(log, dies_at=dies_at, late=late))
    with pytest.raises((JournalLost, RunParked)):
        await run.drive()
    while log.snapshot().waiting != ("approval",):
        await parked(await take_up(log, agent_of(world), world))
    result = await go_on(log, world, decided("r/1/1"))
    assert (result.ok, world.begun) == (True, [("r/1/1", "b")])
    assert names(log).count("approval_requested") == 1
    assert_people_had_their_say(log.events)
    assert_whole_over_lives(log.events)


@pytest.mark.parametrize("dies_at", range(1, 5))
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("decision", ["approved", "denied"])
async def test_killed_behind_a_decision_it_stays_decided(
    decision: str, dies_at: int, late: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """What is started may have happened and is not repeated; what is not started is started on the same approval."""
    world = AskedWorld(PAY)
    log = await until_parked(world)
    log.outside(decided("r/1/0", decision))
    run = await take_up(log, agent_of(world), world, Executor(log, dies_at=dies_at, late=late))
    with pytest.raises(JournalLost):
        await run.drive()
    result = await (await take_up(log, agent_of(world), world)).drive()
    assert result.ok
    assert len(world.begun) <= int(decision == "approved")
    started = any(isinstance(event, ToolStarted) for event in log.events)
    assert started == (decision == "approved")
    assert_told_as_driven(log, result)
    assert_people_had_their_say(log.events)
    assert_whole_over_lives(log.events)


async def left_by(
    run: AgentRun, seconds: float, *, soon: bool = False, words: tuple[Event, ...] = ()
) -> RunLeft | None:
    """Drives a run that is left after so many seconds, and then hears these words; how it was left."""
    left = []

    async def drive() -> None:
        try:
            await run.drive()
        except RunLeft as error:
            left.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive)
        await trio.sleep(seconds)
        run.leave_soon() if soon else run.leave()
        run.receive(words)
    return left[0] if left else None


async def test_a_call_that_is_made_again_uses_its_own_approval(autojump_clock: trio.testing.MockClock) -> None:
    """An idempotent call whose executor was killed in the middle is started again, and says by whose leave."""
    world = AskedWorld(in_turn(ask("put", {"text": "much"}), say("done")))
    log = await until_parked(world)
    log.outside(decided("r/1/0"))
    run = await take_up(log, agent_of(world), world, Executor(log, dies_at=2, late=True))
    with pytest.raises(JournalLost):
        await run.drive()
    run = await take_up(log, agent_of(world), world)
    assert (await run.drive()).ok
    assert (run.scope.used.tool_calls, log.snapshot().used.tool_calls) == (1, 1)
    started = [event for event in log.events if isinstance(event, ToolStarted)]
    assert [event.approval for event in started] == ["r/1/0", "r/1/0"]
    assert names(log).count("approval_requested") == 1


async def test_a_run_that_is_left_while_it_waits_beside_work_asks_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The next executor finds what was asked and asks nothing anew; what was cut off has an unknown effect."""
    world, log = AskedWorld(BESIDE), SessionLog()
    assert await left_by(await begin(world, Executor(log)), 2)
    await parked(await take_up(log, agent_of(world), world))
    result = await go_on(log, world, decided("r/1/1"))
    assert (result.unknown_effects, names(log).count("approval_requested")) == (("r/1/0",), 1)


@pytest.mark.parametrize("decide", [True, False])
async def test_leaving_soon_starts_nothing_more(decide: bool, autojump_clock: trio.testing.MockClock) -> None:
    """Approved while the executor only lets open calls end, a call is the next executor's; undecided, the run parks."""
    world, log = AskedWorld(BESIDE), SessionLog()

    class Told(Executor):
        def before(self, events: Any) -> None:
            if decide and isinstance(events[0], ToolFinished) and approval not in self.log.events:
                self.log.outside(approval)

    run = await begin(world, Told(log))
    approval = decided("r/1/1")
    left = await left_by(run, 2, soon=True, words=(approval,) if decide else ())
    assert (world.begun, isinstance(left, RunParked)) == ([("r/1/0", "a")], not decide)
    assert (await go_on(log, world, *(() if decide else (approval,)))).ok


async def test_a_run_that_kills_whoever_takes_it_up_fails_in_the_end(autojump_clock: trio.testing.MockClock) -> None:
    """Waiting for people starts the count anew; being taken up again and again without a step or a wait does not."""
    world = AskedWorld(in_turn(ask("put", {"text": "much"}), say("done")))
    log = await until_parked(world)
    log.outside(decided("r/1/0"))
    for _ in range(3):
        run = await take_up(log, agent_of(world), world, Executor(log, dies_at=2, late=True))
        with pytest.raises(JournalLost):
            await run.drive()
    result = await (await take_up(log, agent_of(world), world)).drive()
    assert result.reason is StopReason.INTERNAL_ERROR
    assert sum(isinstance(event, RunResumed) for event in log.events) == 4
