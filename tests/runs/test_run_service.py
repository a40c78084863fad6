"""Runs of the daemon by id: started, seen, waited for, cancelled."""

import gc
from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import HeadraceError, InvalidLimits, QueueFull, UnknownModel
from agents.lifecycle import State
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.observation import Observation, validate_observation
from agents.runtime import DuplicateRun, UnknownRun
from agents.scripted import say
from orchestrator.catalogue import UnknownAgent
from orchestrator.runs.record import RunRecord
from orchestrator.runs.service import RunsConfig
from orchestrator.views.runs import AgentChoice, RunRequest, RunView
from tests.agents.whole import assert_nothing_reserved, assert_whole
from tests.runs.running import EPOCH, SEEKER, World, running

Clock = trio.testing.MockClock


def observation(view: RunView) -> Observation:
    return Observation(view.run, view.state, view.reason, view.usage)


async def watch(world: World, run: str) -> list[RunView]:
    """Looks every 0.4 s till the end, holding each view against the one before."""
    seen: list[RunView] = []
    while not seen or seen[-1].reason is None:
        view = await world.service.view(run)
        validate_observation(observation(seen[-1]) if seen else None, observation(view))
        seen.append(view)
        await trio.sleep(0.4)
    return seen


async def test_a_run_is_started_seen_and_waited_for(autojump_clock: Clock) -> None:
    """Start returns before the run has done anything; views only go forward; the detail has it all."""
    async with running() as world:
        view = await world.service.start(RunRequest(task="x", who=SEEKER, tenant="acme", priority="interactive"))
        assert (trio.current_time(), view.observed, view.started, view.reason) == (0, "pending", None, None)
        assert (view.tenant, view.agent, view.model, view.priority) == ("acme", "seeker", "scripted", "interactive")
        seen = await watch(world, view.run)
        assert {State.WAITING_MODEL, State.WAITING_TOOL} <= {one.state for one in seen}
        detail = await world.service.wait(view.run)
        assert (detail.answer, detail.partial, detail.reason) == ("found", "", "final_answer")
        assert (detail.rounds, detail.tool_calls, detail.micro_dollars) == (2, 1, None)
        assert (detail.created, detail.started, detail.ended) == (EPOCH, EPOCH, pytest.approx(EPOCH + 62))
        assert [message.role for message in detail.messages] == ["user", "assistant", "tool", "assistant"]
        events = await world.events(view.run)
        assert detail.events == len(events)
        assert_whole(events)
    world.assert_nothing_left()


async def test_a_live_run_shows_its_transcript_so_far(autojump_clock: Clock) -> None:
    """In the middle of a tool call the detail has the turns taken, and usage as reported."""
    async with running() as world:
        run = await world.start()
        await trio.sleep(30)
        detail = await world.service.detail(run)
        assert [message.content for message in detail.messages] == ["x", "looking"]
        assert (detail.rounds, detail.state, detail.answer) == (1, State.WAITING_TOOL, "")
        assert detail.usage.output is not None


@pytest.mark.parametrize("after", [0, 0.5, 1.5, 30, 61.5])
@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
async def test_a_run_is_cancelled_in_every_phase(after: float, reason: Any, autojump_clock: Clock) -> None:
    """Before it begins, while it waits for the model, for a tool, and again: acknowledged at once, then terminal."""
    async with running() as world:
        run = await world.start()
        if after:
            await trio.sleep(after)
        before = await world.service.view(run)
        acknowledged = await world.service.cancel(run, reason)
        validate_observation(observation(before), observation(acknowledged))
        with trio.fail_after(1):
            detail = await world.service.wait(run)
        assert (detail.reason, detail.state) == (reason, State.CANCELLED)
        assert detail.partial == ("looking" if after > 1 else "")
        validate_observation(observation(acknowledged), observation(detail))
        assert_whole(await world.events(run))
    world.assert_nothing_left()


async def test_cancelling_an_ended_run_changes_nothing(autojump_clock: Clock) -> None:
    """It succeeds, and the evidence stays as it was."""
    async with running() as world:
        run = await world.start()
        ended = await world.service.wait(run)
        assert (await world.service.cancel(run)).reason == "final_answer"
        assert await world.service.wait(run) == ended == await world.service.detail(run)


async def test_nobodys_id_is_unknown(autojump_clock: Clock) -> None:
    """Every way of asking for an id that was never given out says so at once."""
    async with running() as world:
        service = world.service
        for ask_for in (service.view, service.detail, service.cancel, service.wait):
            with pytest.raises(UnknownRun, match="nobody"):
                await ask_for("nobody")
        with pytest.raises(UnknownRun, match="nobody"):
            await anext(service.events("nobody"))


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"run": "a/b"}, InvalidLimits, "run: "),
        ({"run": "x" * 65}, InvalidLimits, "run: "),
        ({"tenant": ""}, InvalidLimits, "tenant: "),
        ({"job": "../up"}, InvalidLimits, "job: "),
        ({"expires_in": 0.0}, InvalidLimits, "expires_in: "),
        ({"expires_in": float("nan")}, InvalidLimits, "expires_in: "),
        ({"who": AgentChoice(agent="nobody")}, UnknownAgent, "'nobody'; there are: seeker"),
        ({"who": AgentChoice(model="none")}, UnknownModel, "'none'"),
        ({"budget": Limits(micro_dollars=5)}, InvalidLimits, "has no price"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_exists(
    asked: Any, error: type[HeadraceError], words: str, autojump_clock: Clock
) -> None:
    """The message names the field; nothing was created, and no place is taken."""
    async with running() as world:
        with pytest.raises(error, match=words):
            await world.start(**asked)
        assert (await world.service.page()).total == 0
    world.assert_nothing_left()


async def test_an_id_is_given_once(autojump_clock: Clock) -> None:
    """A second run of the same id is refused, even while the first is being created, and disturbs it by nothing."""
    async with running() as world:
        outcomes = []

        async def start() -> None:
            try:
                outcomes.append(await world.start(run="mine"))
            except DuplicateRun:
                outcomes.append("refused")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(start)
        assert sorted(outcomes) == ["mine"] + ["refused"] * 4
        assert (await world.service.wait("mine")).reason == "final_answer"
        with pytest.raises(DuplicateRun, match="mine"):
            await world.start(run="mine")


async def test_a_request_lowers_limits_and_never_raises_them(autojump_clock: Clock) -> None:
    """Field by field the lesser of the agent's and the request's stands."""
    async with running() as world:
        run = await world.start(budget=Limits(rounds=1, tokens=900_000, tool_calls=7))
        created = (await world.events(run))[0]
        assert created.limits == Limits(rounds=1, tool_calls=7, tokens=100_000)  # type: ignore[union-attr]
        detail = await world.service.wait(run)
        assert (detail.reason, detail.limit, detail.scope, detail.next) == (
            "max_rounds",
            "rounds",
            "run",
            "raise_limit",
        )
        stopped = (detail.scope, detail.limit, detail.allowed, detail.observed_amount)
        assert stopped == ("run", "rounds", 1, 1)


async def test_money_is_limited_where_the_model_has_a_price(autojump_clock: Clock) -> None:
    """The catalogue's prices are counted, and stop a run."""
    async with running(script=lambda _: say("yes")) as world:
        cheap = await world.start(who=AgentChoice(model="priced", max_tokens=50), budget=Limits(micro_dollars=5000))
        detail = await world.service.wait(cheap)
        assert detail.reason == "final_answer"
        assert detail.micro_dollars == detail.usage.total
        poor = await world.start(who=AgentChoice(model="priced", max_tokens=50), budget=Limits(micro_dollars=1))
        assert (await world.service.wait(poor)).reason == "cost_budget_exceeded"


async def test_a_tenants_highest_priority_caps_a_request(autojump_clock: Clock) -> None:
    """What is asked for is lowered to what the tenant may use; what is not said is the tenant's default."""
    async with running() as world:
        high = await world.start(tenant="modest", priority="interactive")
        unsaid = await world.start(tenant="modest")
        assert (await world.service.view(high)).priority == "standard"
        assert (await world.service.view(unsaid)).priority == "batch"
        assert {world.models.priorities[high], world.models.priorities[unsaid]} == {1, 2}


async def test_a_run_expires_also_while_it_is_queued(autojump_clock: Clock) -> None:
    """Beyond `max_live` runs are queued in order, and one that is worth nothing any more ends there."""
    async with running(max_live=1) as world:
        first, second, third = [await world.start() for _ in range(3)]
        expiring = await world.start(expires_in=3)
        await trio.sleep(0.5)
        states = [(await world.service.view(run)).state for run in (first, second, third, expiring)]
        assert states == ["waiting_model", "queued", "queued", "queued"]
        said = world.service.statistics()
        assert (said.live, said.driven, said.states) == (4, 1, {"waiting_model": 1, "queued": 3})
        detail = await world.service.wait(expiring)
        assert (trio.current_time(), detail.reason, detail.started) == (pytest.approx(3), "expired", None)
        await world.service.wait(third)
        assert (await world.service.view(second)).reason == "final_answer"
        assert trio.current_time() == pytest.approx(3 * 62)
    world.assert_nothing_left()


async def test_a_lost_journal_fails_the_run_and_says_so(autojump_clock: Clock) -> None:
    """One whose events can't be kept fails as internal_error; one that could not even be created never exists."""

    class Full:
        room = 4

        async def append(self, events: Any) -> None:
            if not self.room:
                raise OSError("no space left")
            self.room -= 1

    full = Full()

    async with running(journal=lambda log: full) as world:
        run = await world.start()
        detail = await world.service.wait(run)
        assert (detail.reason, detail.state, detail.next) == ("internal_error", State.FAILED, "human")
        assert "no space left" in detail.message
        with pytest.raises(JournalLost):
            await world.start(run="second")
        with pytest.raises(UnknownRun):
            await world.service.view("second")
        assert world.finished_in_metrics() == {("failed", "internal_error"): 1}
    world.assert_nothing_left()


async def test_ended_runs_are_forgotten_after_so_many_others(autojump_clock: Clock) -> None:
    """The last few that ended stay readable, whole; those before them nobody knows any more."""
    async with running(keep_ended=3) as world:
        runs = [await world.start() for _ in range(10)]
        answers = []

        async def wait(run: str) -> None:
            answers.append((await world.service.wait(run)).answer)

        async with trio.open_nursery() as nursery:
            for run in runs:
                nursery.start_soon(wait, run)
        assert answers == ["found"] * 10
        known = [view.run for view in (await world.service.page()).runs]
        assert len(known) == 3
        for run in known:
            assert_whole(await world.events(run))
        for run in set(runs) - set(known):
            with pytest.raises(UnknownRun):
                await world.service.detail(run)
        assert await world.service.states() == {"completed": 3}


async def test_other_bounds_hold_from_then_on(autojump_clock: Clock) -> None:
    """Fewer places refuse newcomers and send nobody away; more let queued runs begin; fewer ended ones are kept."""
    async with running(max_live=1, per_tenant=3) as world:
        runs = [await world.start() for _ in range(3)]
        world.service.configure(RunsConfig(max_live=2, per_tenant=2, keep_ended=1))
        await trio.sleep(0.5)
        states = [(await world.service.view(run)).state for run in runs]
        assert states == ["waiting_model", "waiting_model", "queued"]
        with pytest.raises(QueueFull, match="has 3 runs"):
            await world.start()
        await world.service.wait(runs[2])
        assert [view.run for view in (await world.service.page()).runs] == [runs[2]]
    world.assert_nothing_left()


async def test_what_has_ended_lets_go_of_what_drove_it(autojump_clock: Clock) -> None:
    """Of a thousand runs that pass through, only views, results and logs of the last few are left."""
    gc.collect()
    before = sum(isinstance(thing, AgentRun | RunRecord) for thing in gc.get_objects())
    async with running(script=lambda _: say("yes"), keep_ended=20) as world:
        for number in range(1000):
            request = RunRequest(task="x", run=f"job.{number}", job="job")
            assert (await world.service.run_to_end(request)).answer == "yes"
        gc.collect()
        kept = [thing for thing in gc.get_objects() if isinstance(thing, AgentRun | RunRecord)]
        assert len(kept) == before
        assert (await world.service.page()).total == 20
    world.assert_nothing_left()


async def test_a_run_is_driven_by_whoever_wants_its_result(autojump_clock: Clock) -> None:
    """`run_to_end` answers the result, under the budget above it, and takes none of its tenant's places."""
    job = Scope("job", Limits(tool_calls=2))
    results = []
    async with running(per_tenant=1) as world:

        async def work(ordinal: int) -> None:
            request = RunRequest(task="x", who=SEEKER, job="batch", run=f"{'j' * 70}.{ordinal}")
            results.append(await world.service.run_to_end(request, budget=job))

        async with trio.open_nursery() as nursery:
            for ordinal in range(4):
                nursery.start_soon(work, ordinal)
            await trio.sleep(1.5)
            assert (await world.service.page(job="batch")).total == 4
            await world.start()
        assert sorted(result.reason for result in results) == ["final_answer"] * 2 + ["max_tool_calls"] * 2
    assert_nothing_reserved(job)
    world.assert_nothing_left()


async def test_a_waiting_task_takes_its_run_with_it(autojump_clock: Clock) -> None:
    """Cancelling the task that drives a run cancels the run, which has its closing event when the task is over."""
    async with running() as world:
        with trio.move_on_after(30):
            await world.service.run_to_end(RunRequest(task="x", who=SEEKER, run="mine"))
        detail = await world.service.detail("mine")
        assert (detail.reason, detail.partial) == ("cancelled", "looking")
        assert_whole(await world.events("mine"))
    world.assert_nothing_left()


async def test_a_run_shows_how_much_of_its_limits_it_has_used(autojump_clock: Clock) -> None:
    """Each limit it has stands there with what was used of it, growing while it works, and final at its end."""
    limits = Limits(rounds=5, tool_calls=4, tokens=10_000, timeout=500.0)
    async with running() as world:
        view = await world.service.start(RunRequest(task="x", who=SEEKER, budget=limits))
        assert {use.limit: (use.used, use.allowed) for use in view.limits} == {
            "rounds": (0, 5),
            "tool_calls": (0, 4),
            "tokens": (0, 10_000),
            "timeout": (0, 500),
        }
        seen = await watch(world, view.run)
        listed = (await world.service.page()).runs[0]
    used = {use.limit: use.used for use in listed.limits}
    assert used == {"rounds": 2, "tool_calls": 1, "tokens": listed.usage.total, "timeout": pytest.approx(62)}
    growing = [next(use.used for use in one.limits if use.limit == "timeout") for one in seen]
    assert growing == sorted(growing)
