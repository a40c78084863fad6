"""Trees of runs that outlive the daemon that began them."""

from collections.abc import Sequence
from functools import partial

import pytest
import trio
import trio.testing

from agents.amounts import Amounts
from agents.budget import Scope
from agents.context import ToolContext
from agents.events import ChildStarted, Event, RunResumed
from agents.messages import Message
from agents.port import Journal
from agents.scripted import Answer, ask, ask_all, say
from agents.spawner import ChildRequest
from agents.spec import AgentSpec
from agents.tools import Tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.runs.record import Terms
from orchestrator.store.base import RunQuery
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.delegation.families import catalogue, ends, finished, give, script, started
from tests.runs.lasting import Daemon, Kept, daemon

Clock = trio.testing.MockClock
CHIEF = AgentChoice(agent="chief")
DIGGER = AgentChoice(agent="digger")
BOTTOM = "0<1<2<bottom>>>"


async def rows(store: Kept) -> list[str]:
    return sorted(row.run for row in (await store.runs(RunQuery(size=100))).rows)


async def assert_each_ended_once(store: Kept, count: int) -> None:
    """Every run of the store has one end, and no call has two results."""
    runs = await rows(store)
    assert len(runs) == count
    for run in runs:
        log = await store.log(run)
        assert len(ends(log)) == 1
        answered = [(event.step, event.index) for event in finished(log)]
        assert len(set(answered)) == len(answered)


@pytest.mark.parametrize("after", [0.5, 1, 1.5, 2, 2.5, 30, 61.5, 62.5, 63.5])
async def test_a_tree_goes_on_with_the_next_daemon(after: float, autojump_clock: Clock) -> None:
    """Killed at whichever moment, it has the same runs in the end, and each ends once, as it would have."""
    store = Kept()
    async with daemon(store, script=script(workers=3), catalogue=catalogue()) as first:
        run = await first.start(who=CHIEF)
        await trio.sleep(after)
    async with daemon(store, script=script(workers=3), catalogue=catalogue()) as second:
        detail = await second.service.wait(run)
        assert detail.answer == " | ".join(f"part {n}: seen part {n}" for n in range(3))
        assert second.service.statistics().live == 0
    await assert_each_ended_once(store, 4)


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
async def test_a_deep_tree_goes_on_after_every_kill(seconds: float, autojump_clock: Clock) -> None:
    """A daemon that is killed every few seconds gets to the bottom and back, through runs that each know their call."""
    store, answer = Kept(), ""
    for life in range(40):
        async with daemon(store, script=script(), catalogue=catalogue()) as there:
            if not life:
                await there.start(who=DIGGER, task="0/3", run="top")
            with trio.move_on_after(seconds if life < 2 else 1000):
                answer = (await there.service.wait("top")).answer
                break
    assert answer == BOTTOM
    await assert_each_ended_once(store, 4)


async def test_a_deep_tree_is_taken_up_with_one_place(autojump_clock: Clock) -> None:
    """After a restart no child takes the place that its parent needs, and nobody else drives it."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue(), max_live=1) as first:
        await first.start(who=DIGGER, task="0/3", run="top")
        await trio.sleep(3.5)
    async with daemon(store, script=script(), catalogue=catalogue(), max_live=1) as second:
        assert (await second.service.wait("top")).answer == BOTTOM
    await assert_each_ended_once(store, 4)


class DyingJournals:
    """Journals of one daemon; it is killed at its append number `at`: before it, or (`late`) behind it."""

    def __init__(self, at: int, *, late: bool) -> None:
        self.left = at
        self.late = late
        self.dead = trio.Event()
        self.daemon: Daemon | None = None

    def __call__(self, journal: Journal) -> Journal:
        return _Dying(self, journal)

    def die(self) -> None:
        assert self.daemon is not None
        self.daemon.link.broken = True
        self.dead.set()


class _Dying:
    def __init__(self, all: DyingJournals, journal: Journal) -> None:
        self._all = all
        self._journal = journal

    async def append(self, events: Sequence[Event]) -> None:
        self._all.left -= 1
        dies = self._all.left == 0
        if dies and not self._all.late:
            self._all.die()
        await self._journal.append(events)
        if dies and self._all.late:
            self._all.die()


class Effects:
    """A worker whose one tool may not be repeated, and which does its work at once."""

    def __init__(self) -> None:
        self.done: list[str] = []

        async def write(text: str, context: ToolContext) -> str:
            self.done.append(context.key)
            await trio.lowlevel.checkpoint()
            return f"wrote {text}"

        specs = (
            AgentSpec(name="chief", model="scripted", system="chief", tools=(give("ask_worker", "worker"),)),
            AgentSpec(name="worker", model="scripted", system="worker", tools=(Tool(write),)),
        )
        models = {"scripted": (Target("sim", "scripted"),)}
        self.catalogue = Catalogue(models=models, default_model="scripted", agents={spec.name: spec for spec in specs})

    @staticmethod
    def script(messages: tuple[Message, ...]) -> Answer:
        results = [message.content for message in messages if message.role == "tool"]
        if messages[0].content == "worker":
            return say(results[-1]) if results else ask("write", {"text": messages[1].content})
        return say(" | ".join(results)) if results else ask_all(*(("ask_worker", {"task": t}, t) for t in "ab"))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", range(2, 22))
async def test_killed_at_every_append(at: int, late: bool, autojump_clock: Clock) -> None:
    """On either side of each append of the tree: nothing that may not be repeated is done twice, all of it ends."""
    store, effects, dying = Kept(), Effects(), DyingJournals(at, late=late)
    async with daemon(store, script=effects.script, catalogue=effects.catalogue, journal=dying) as first:
        dying.daemon = first
        await first.start(who=CHIEF, run="top")
        await dying.dead.wait()
    async with daemon(store, script=effects.script, catalogue=effects.catalogue) as second:
        detail = await second.service.wait("top")
        assert detail.reason == "final_answer"
        assert len(detail.answer.split(" | ")) == 2
        assert second.service.statistics().live == 0
    assert len(set(effects.done)) == len(effects.done)
    await assert_each_ended_once(store, 3)
    log = await store.log("top")
    assert sorted(event.child for event in log if isinstance(event, ChildStarted)) == ["top.1.0", "top.1.1"]


@pytest.mark.parametrize("after", [1.5, 30, 62.5, 63.5])
async def test_budgets_know_what_children_used_before(after: float, autojump_clock: Clock) -> None:
    """After a restart, all that the tree has used or may have used is in the scope above it once, no more, no less."""
    store, request = Kept(), RunRequest(task="x", who=CHIEF, run="top", job="work")
    async with (
        daemon(store, script=script(workers=3), catalogue=catalogue()) as first,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.service.run_to_end, request)
        await trio.sleep(after)
        first.link.broken = True
        nursery.cancel_scope.cancel()
    job = Scope("job")
    async with daemon(store, script=script(workers=3), catalogue=catalogue(), resume=False) as second:
        await second.service.resume_rest(["work"])
        await second.service.charge(job, ["top"], tenant="default", job="work")
        result = await second.service.run_to_end(request, budget=job)
        total = Amounts()
        for run in await rows(store):
            detail = await second.service.detail(run)
            assert detail.usage.total is not None
            total += Amounts(rounds=detail.rounds, tool_calls=detail.tool_calls, tokens=detail.usage.total)
        assert job.used == total
        assert result.usage.total is not None
        assert result.below.tokens == total.tokens - result.usage.total
        assert job.unknown.tokens == (await second.service.detail("top")).unknown_tokens
        assert (job.unknown.tokens > 0) == (after != 30)
        assert job.reserved == Amounts()


async def test_children_of_a_drained_daemon_stay_open(autojump_clock: Clock) -> None:
    """Whoever drains leaves the whole tree where it stands, with no end and no cancellation in any log."""
    store = Kept()
    async with daemon(store, script=script(workers=2), catalogue=catalogue()) as first:
        run = await first.start(who=CHIEF)
        await trio.sleep(30)
        await first.service.end_all()
        assert first.service.statistics().live == 0
    assert (await store.runs(RunQuery(open=True))).total == 3
    for each in await rows(store):
        assert not ends(await store.log(each))
    async with daemon(store, script=script(workers=2), catalogue=catalogue()) as second:
        assert (await second.service.wait(run)).reason == "final_answer"
    await assert_each_ended_once(store, 3)


async def test_only_the_parent_takes_a_child_up(autojump_clock: Clock) -> None:
    """While nobody drives the parent, nobody drives its child, and cancelling the parent ends both."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue()) as first:
        run = await first.start(who=CHIEF, job="work")
        await trio.sleep(30)
    async with daemon(store, script=script(), catalogue=catalogue(), resume=False) as second:
        assert await second.service.resume_rest(["work"]) == 0
        await trio.sleep(500)
        assert (await second.service.view(f"{run}.1.0")).reason is None
        await second.service.cancel(run)
        assert (await second.service.wait(run)).reason == "cancelled"
        assert (await second.service.wait(f"{run}.1.0")).reason == "cancelled"
    assert not any(isinstance(event, RunResumed) for event in (await store.log(f"{run}.1.0"))[:-3])


async def test_an_orphan_is_ended(autojump_clock: Clock) -> None:
    """A child whose parent is not open when a daemon starts is taken away, and does nothing more."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue()) as first:
        child = ChildRequest(run="ghost.1.0", parent="ghost", key="ghost/1/0", depth=1, agent="worker", task="x")
        request = RunRequest(task="x", who=AgentChoice(agent="worker"), run=child.run)
        await first.service._starting.create_child(request, Terms(child=child))
    async with daemon(store, script=script(), catalogue=catalogue()) as second:
        assert (await second.service.wait("ghost.1.0")).reason == "cancelled"
        assert second.service.statistics().live == 0
    assert not started(await store.log("ghost.1.0"))


async def test_a_parent_that_is_taken_up_again_here_finds_its_child(autojump_clock: Clock) -> None:
    """Where the parent's log alone fails for a while, the child is left and taken up with it, and is charged once."""
    store, job = Kept(), Scope("job")
    async with daemon(store, script=script(workers=2), catalogue=catalogue()) as there:
        request = RunRequest(task="x", who=CHIEF, run="top")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(there.service.run_to_end, request, budget=job))
            await trio.sleep(30)
            record = there.service._records["top"]
            assert record.live is not None
            record.live.leave()
        total = Amounts()
        for run in await rows(store):
            detail = await there.service.detail(run)
            assert detail.usage.total is not None
            total += Amounts(rounds=detail.rounds, tool_calls=detail.tool_calls, tokens=detail.usage.total)
        assert job.used == total
    for run in await rows(store):
        assert sum(isinstance(event, RunResumed) for event in await store.log(run)) == 1
    await assert_each_ended_once(store, 3)


async def test_children_of_a_run_that_ends_when_the_store_is_back_end_too(autojump_clock: Clock) -> None:
    """A fenced executor leaves a tree, whose first run has no time left when it is taken up: those below it, which it
    had let go of to go on with them later, are taken away and not forgotten."""
    store = Kept()
    async with daemon(store, script=script(workers=3), catalogue=catalogue()) as there:
        await there.start(who=CHIEF, expires_in=60.0)
        await trio.sleep(1.2)
        assert len(await rows(store)) > 1
        there.link.broken = True
        await trio.sleep(100)
        there.link.broken = False
        await trio.sleep(300)
        assert there.service.statistics().live == 0
    for run in await rows(store):
        assert len(ends(await store.log(run))) == 1, run
