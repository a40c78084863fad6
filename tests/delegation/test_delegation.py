"""Agents as tools: runs below runs, in one daemon."""

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.events import ChildStarted, RunCreated
from agents.lifecycle import State
from agents.messages import Message
from agents.scripted import Answer, Script, ask, in_turn, say
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.delegation.families import OneSlot, catalogue, ends, finished, script
from tests.runs.lasting import Kept, daemon

Clock = trio.testing.MockClock
CHIEF = AgentChoice(agent="chief")
DIGGER = AgentChoice(agent="digger")


async def test_a_call_is_a_run_of_its_own(autojump_clock: Clock) -> None:
    """The child's answer is the call's result; both logs say whose child it is; the parent waits for children."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        await trio.sleep(30)
        assert (await there.service.view(run)).state is State.WAITING_CHILDREN
        child = f"{run}.1.0"
        assert (await there.service.view(child)).parent == run
        detail = await there.service.wait(run)
        assert (detail.answer, detail.rounds, detail.tool_calls) == ("part 0: seen part 0", 2, 1)
        assert (await there.service.view(child)).state is State.COMPLETED
        assert there.service.statistics().live == 0
        assert not +there.models.live
    created = (await store.log(child))[0]
    assert isinstance(created, RunCreated)
    assert (created.parent, created.parent_key, created.depth) == (run, f"{run}/1/0", 1)
    assert [e.child for e in await store.log(run) if isinstance(e, ChildStarted)] == [child]


async def test_children_run_beside_each_other(autojump_clock: Clock) -> None:
    """Eight workers take no longer than one, and their answers come in the order of the calls."""
    async with daemon(Kept(), script=script(workers=8), catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        detail = await there.service.wait(run)
        assert detail.answer == " | ".join(f"part {n}: seen part {n}" for n in range(8))
        assert trio.current_time() == pytest.approx(64)


async def test_a_deep_tree_needs_one_slot_and_one_place(autojump_clock: Clock) -> None:
    """Twelve runs, each below the other, end on a backend with one slot in a service that drives one run at a time."""
    async with daemon(Kept(), script=script(), catalogue=catalogue(depth=12), max_live=1) as there:
        there.models.model = model = OneSlot(script())
        run = await there.start(who=DIGGER, task="0/12")
        detail = await there.service.wait(run)
        expected = "bottom"
        for level in reversed(range(12)):
            expected = f"{level}<{expected}>"
        assert detail.answer == expected
        assert model.calls == 25
        assert (await there.service.page(size=50)).total == 13


async def test_a_wide_tree_needs_one_slot(autojump_clock: Clock) -> None:
    """Two chiefs with eight workers each, one slot, one place: all of it ends."""
    async with daemon(Kept(), script=script(workers=8), catalogue=catalogue(), max_live=1) as there:
        there.models.model = OneSlot(script(workers=8))
        runs = [await there.start(who=CHIEF) for _ in range(2)]
        for run in runs:
            assert (await there.service.wait(run)).reason == "final_answer"


async def test_depth_is_bounded(autojump_clock: Clock) -> None:
    """The run at the bound is told that it may start no other, and does the work itself."""
    async with daemon(Kept(), script=script(), catalogue=catalogue(depth=2)) as there:
        run = await there.start(who=DIGGER, task="0/9")
        detail = await there.service.wait(run)
        assert detail.answer == "0<1<2<No run was started: at most 2 may be above it. Do the work here.>>>"
        assert (await there.service.page()).total == 3


async def test_width_is_bounded(autojump_clock: Clock) -> None:
    """A run that asks for more children than it may have gets those it may have, and a reason for each of the rest."""
    async with daemon(Kept(), script=script(workers=5), catalogue=catalogue(width=3)) as there:
        run = await there.start(who=CHIEF)
        answer = (await there.service.wait(run)).answer
        assert answer.count("seen part") == 3
        assert answer.count("this run has started 3, and may start no more") == 2
        assert (await there.service.page()).total == 4


async def test_what_children_use_is_their_parents(autojump_clock: Clock) -> None:
    """The parent's log holds what its child used, to the token; its scope and its job's hold the sum of both."""
    store, job = Kept(), Scope("job")
    async with daemon(store, script=script(workers=2), catalogue=catalogue()) as there:
        request = RunRequest(task="x", who=CHIEF, run="mine")
        result = await there.service.run_to_end(request, budget=job)
        children = [await there.service.detail(f"mine.1.{n}") for n in range(2)]
    used = [event.used for event in finished(await store.log("mine"))]
    assert [each.tokens for each in used] == [child.usage.total for child in children]
    assert [each.rounds for each in used] == [2, 2]
    assert result.usage.total is not None
    assert result.below == used[0] + used[1]
    assert job.used.tokens == result.usage.total + result.below.tokens
    assert (job.used.rounds, job.used.tool_calls) == (6, 4)
    assert not job.reserved.tokens


@pytest.mark.parametrize(
    ("limits", "worker", "told"),
    [
        (Limits(rounds=50), Limits(rounds=1), "max_rounds (run at depth 1 allows 1 rounds"),
        (Limits(rounds=2), Limits(rounds=5), "max_rounds (run allows 2 rounds"),
        (Limits(tool_calls=1, rounds=50), Limits(rounds=5), "max_tool_calls (run allows 1 tool calls"),
    ],
)
async def test_a_child_stops_at_its_own_limit_and_at_its_parents(
    limits: Limits, worker: Limits, told: str, autojump_clock: Clock
) -> None:
    """Whichever is met first, the call says which it was, and nothing is overspent."""
    store = Kept()
    many = catalogue(limits=limits, worker=worker)
    async with daemon(store, script=script(), catalogue=many) as there:
        run = await there.start(who=CHIEF)
        await there.service.wait(run)
        (call,) = finished(await store.log(run))
        assert call.outcome == "error"
        assert told in call.content


async def test_limits_are_lowered_by_what_is_asked(autojump_clock: Clock) -> None:
    """The least of the agent's, the tool's and the call's limits holds, and none raises another."""
    asking: Script = in_turn(
        ask("ask_worker", {"task": "a", "rounds": 1}), ask("ask_worker", {"task": "b", "rounds": 99}), say("done")
    )
    parts = script()

    def answer(messages: tuple[Message, ...]) -> Answer:
        return parts(messages) if messages[0].content == "worker" else asking(messages)

    store = Kept()
    async with daemon(store, script=answer, catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        await there.service.wait(run)
        limits = []
        for child in (f"{run}.1.0", f"{run}.2.0"):
            created = (await store.log(child))[0]
            assert isinstance(created, RunCreated)
            limits.append(created.limits.rounds)
        assert limits == [1, 5]


async def test_no_such_agent_is_an_observation(autojump_clock: Clock) -> None:
    """The model is told which agents there are, no run is created, and the parent goes on."""
    asking: Script = in_turn(ask("ask_nobody", {"task": "a"}), say("done"))
    store = Kept()
    async with daemon(store, script=asking, catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        assert (await there.service.wait(run)).answer == "done"
        (call,) = finished(await store.log(run))
        assert (call.outcome, call.content) == (
            "error",
            "There is no run of agent nobody: no agent is called 'nobody'; there are: chief, digger, worker",
        )
        assert (await there.service.page()).total == 1


@pytest.mark.parametrize("before", [0, 1000])
async def test_a_run_of_the_childs_name_is_not_taken_for_it(before: float, autojump_clock: Clock) -> None:
    """Whoever guesses a child's id and takes it gets no say in the parent, under way or ended."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue()) as there:
        await there.start(who=AgentChoice(agent="worker"), run="mine.1.0")
        await trio.sleep(before)
        run = await there.start(who=CHIEF, run="mine")
        detail = await there.service.wait(run)
        assert detail.answer.endswith("there is a run mine.1.0 already, and it is none that this call started")
        assert (await there.service.wait("mine.1.0")).reason == "final_answer"


@pytest.mark.parametrize("after", [0.5, 1.5, 30, 62.5])
async def test_cancelling_the_parent_cancels_all_below_it(after: float, autojump_clock: Clock) -> None:
    """At whichever moment, children end as cancelled before their parent does, and nothing is left."""
    store = Kept()
    async with daemon(store, script=script(workers=3), catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        await trio.sleep(after)
        await there.service.cancel(run)
        assert (await there.service.wait(run)).reason == "cancelled"
        page = await there.service.page()
        assert all(view.reason is not None for view in page.runs)
        assert page.total == (1 if after < 1 else 4)
        assert there.service.statistics().live == 0
    for view in page.runs:
        assert len(ends(await store.log(view.run))) == 1


async def test_a_call_that_takes_too_long_takes_its_child_with_it(autojump_clock: Clock) -> None:
    """The call's timeout is the child's end, and the parent goes on."""
    store = Kept()
    async with daemon(store, script=script(), catalogue=catalogue(timeout=20)) as there:
        run = await there.start(who=CHIEF)
        detail = await there.service.wait(run)
        assert detail.answer == "This call was cut off (it ran longer than 20 s)."
        assert (await there.service.view(f"{run}.1.0")).reason == "cancelled"
        (call,) = finished(await store.log(run))
        assert (call.outcome, call.used.rounds) == ("timeout", 1)


async def test_a_child_that_is_cancelled_is_an_observation(autojump_clock: Clock) -> None:
    """Somebody who takes away the child alone leaves the parent running, which is told."""
    async with daemon(Kept(), script=script(), catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        await trio.sleep(30)
        await there.service.cancel(f"{run}.1.0")
        detail = await there.service.wait(run)
        assert detail.reason == "final_answer"
        assert detail.answer.startswith("The run of agent worker did not complete: cancelled")


async def test_children_start_while_a_daemon_waits_for_what_is_live(autojump_clock: Clock) -> None:
    """A daemon that takes nothing new lets a live run have the children that it needs to end."""
    async with daemon(Kept(), script=script(), catalogue=catalogue()) as there:
        run = await there.start(who=CHIEF)
        assert not await there.service.drain()
        assert (await there.service.detail(run)).answer == "part 0: seen part 0"
