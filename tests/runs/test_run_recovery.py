"""Runs that outlive the daemon that began them."""

import math
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from agents.amounts import Amounts, Limits
from agents.budget import Scope
from agents.errors import Draining
from agents.events import CancelRequested, Event, ModelFailed, RunEnded, RunResumed, RunStarted, ToolStarted
from agents.lifecycle import State
from agents.log import JournalLost
from agents.observation import Observation, validate_observation
from agents.origin import RunLeft
from agents.port import Journal
from agents.runtime import DuplicateRun
from agents.scripted import in_turn, say
from orchestrator.store.base import RunQuery
from orchestrator.views.runs import RunRequest, RunView
from tests.runs.lasting import Kept, daemon
from tests.runs.running import CATALOGUE, EPOCH, SEEKER

Clock = trio.testing.MockClock


def observation(view: RunView) -> Observation:
    return Observation(view.run, view.state, view.reason, view.usage)


@pytest.mark.parametrize("after", [0, 0.5, 1, 1.5, 30, 61, 61.5])
async def test_a_run_goes_on_with_the_next_daemon(after: float, autojump_clock: Clock) -> None:
    """Killed at whichever moment, it is seen at once, never goes back, and ends as it would have."""
    store = Kept()
    async with daemon(store) as first:
        run = await first.start()
        await trio.sleep(after)
        before = await first.service.view(run)
    async with daemon(store) as second:
        seen = await second.service.view(run)
        validate_observation(observation(before), observation(seen))
        detail = await second.service.wait(run)
        assert (detail.reason, detail.answer, detail.rounds, detail.tool_calls) == ("final_answer", "found", 2, 1)
        assert detail == await second.service.detail(run)
        assert detail.created == EPOCH
        assert second.service.statistics().live == 0
    events = await store.log(run)
    assert sum(isinstance(event, RunEnded) for event in events) == 1
    assert len({event.key for event in events if isinstance(event, ToolStarted)}) == 1


async def test_each_daemon_has_a_later_generation(autojump_clock: Clock) -> None:
    """The log tells how often the run was taken up, and under which lease."""
    store = Kept()
    for number in range(3):
        async with daemon(store) as there:
            if not number:
                await there.start(run="mine")
            await trio.sleep(20)
    async with daemon(store) as last:
        await last.service.wait("mine")
    generations = [event.generation for event in await store.log("mine") if isinstance(event, RunResumed)]
    assert len(generations) == 3
    assert generations == sorted(set(generations))


async def test_a_drained_daemon_leaves_its_runs_open(autojump_clock: Clock) -> None:
    """Whoever waits is told, whoever drives is told, the log says nothing of an end, and its sessions are free."""
    store = Kept()
    told: list[str] = []
    async with daemon(store) as first:
        run = await first.start()

        async def wait() -> None:
            with pytest.raises(Draining, match="goes on with the next one"):
                await first.service.wait(run)
            told.append("waiter")

        async def drive() -> None:
            with pytest.raises(RunLeft):
                await first.service.run_to_end(RunRequest(task="x", who=SEEKER, run="driven"))
            told.append("driver")

        async def watch() -> None:
            types = [number async for number, _ in first.service.events(run)]
            told.append(f"watcher of {len(types)}")

        async with trio.open_nursery() as nursery:
            for task in (wait, drive, watch):
                nursery.start_soon(task)
            await trio.sleep(10)
            assert await first.service.drain(trio.current_time() + 5) == 2
            await first.service.end_all()
        assert first.service.statistics().live == 0
        assert not +first.models.live
    assert len(told) == 3
    assert not any(isinstance(event, RunEnded | CancelRequested) for event in await store.log(run))
    assert (await store.runs(RunQuery(open=True))).total == 2
    async with daemon(store) as second:
        assert (await second.service.wait(run)).reason == "final_answer"
        assert (await second.service.wait("driven")).reason == "final_answer"


async def test_downtime_counts_and_no_time_is_granted(autojump_clock: Clock) -> None:
    """A run with 100 seconds that is alone for 200 of them has timed out when it is taken up; one that expired has
    expired.
    """
    store = Kept()
    async with daemon(store) as first:
        timed = await first.start(budget=Limits(timeout=100))
        expiring = await first.start(expires_in=100)
        await trio.sleep(10)
    await trio.sleep(200)
    async with daemon(store) as second:
        assert (await second.service.wait(timed)).reason == "timeout"
        assert (await second.service.wait(expiring)).reason == "expired"
        assert trio.current_time() == pytest.approx(210)


async def test_a_lost_call_is_in_the_ledger_and_stays_spent(autojump_clock: Clock) -> None:
    """Before anything is driven, what the dangling request reserved is written as unknown, once."""
    store = Kept()
    async with daemon(store) as first:
        run = await first.start()
        await trio.sleep(0.5)
    async with daemon(store, resume=False):
        pass
    async with daemon(store, resume=False) as second:
        rows = await store.ledger.calls(run=run)
        assert [(row.key, row.outcome, row.model) for row in rows] == [(f"{run}/1/1", "lost", "scripted")]
        assert rows[0].unknown_tokens > 0
        await second.service.resume_rest()
        detail = await second.service.wait(run)
        assert detail.unknown_tokens == rows[0].unknown_tokens
    lost = [event for event in await store.log(run) if isinstance(event, ModelFailed)]
    assert [event.kind for event in lost] == ["lost"]


async def test_a_cancellation_reaches_a_run_that_nobody_drives(autojump_clock: Clock) -> None:
    """It is in the log when it is acknowledged, and the run is taken up only to be closed."""
    store = Kept()
    async with daemon(store) as first:
        run = await first.start()
        await trio.sleep(10)
    async with daemon(store, resume=False) as second:
        await second.service.cancel(run, "interrupted")
        detail = await second.service.wait(run)
        assert (detail.reason, detail.state) == ("interrupted", State.CANCELLED)
        assert trio.current_time() == pytest.approx(10)


async def test_an_agent_that_is_not_configured_can_come_back(autojump_clock: Clock) -> None:
    """Until then the run stays open and says what is missing; then it goes on without a hand."""
    store = Kept()
    async with daemon(store) as first:
        run = await first.start()
        await trio.sleep(10)
    async with daemon(store, catalogue=replace(CATALOGUE, agents={})) as second:
        await trio.sleep(100)
        view = await second.service.view(run)
        assert "no agent is called 'seeker'" in view.message
        assert view.observed == "running"
        second.catalogue = CATALOGUE
        assert (await second.service.wait(run)).reason == "final_answer"


async def test_a_log_of_a_later_version_stops_that_run_alone(autojump_clock: Clock) -> None:
    """It stays open, is shown with the reason, and the others go on."""
    store = Kept()
    async with daemon(store) as first:
        strange, plain = await first.start(), await first.start()
        await trio.sleep(10)
    await store.append_external(strange, "later", [b'{"type":"dreamt","run":"x"}'])
    async with daemon(store) as second:
        assert (await second.service.wait(plain)).reason == "final_answer"
        view = await second.service.view(strange)
        assert "this version cannot read" in view.message
        assert [view.run for view in (await second.service.page(observed=frozenset({"running"}))).runs] == [strange]
        await second.service.end_all()
    assert (await store.runs(RunQuery(open=True))).total == 1


async def test_a_run_whose_log_takes_no_more_goes_on_when_it_does(autojump_clock: Clock) -> None:
    """The run stays open meanwhile and says why; what was acknowledged before is not done again."""

    class Once:
        """Fails one append of the run, the sixth."""

        count = 0

        def __init__(self, journal: Journal) -> None:
            self._journal = journal

        async def append(self, events: Sequence[Event]) -> None:
            Once.count += 1
            if Once.count == 6:
                raise OSError("no space left")
            await self._journal.append(events)

    store = Kept()
    async with daemon(store, journal=Once) as there:
        run = await there.start()
        await trio.sleep(61.5)
        assert "no space left" in (await there.service.view(run)).message
        detail = await there.service.wait(run)
        assert (detail.reason, detail.tool_calls, detail.message) == ("final_answer", 1, "")
    assert Once.count > 6


async def test_a_fenced_executor_leaves_its_runs_and_comes_back(autojump_clock: Clock) -> None:
    """Where no beat comes through it stops 5 s before anybody may take its runs, and goes on when the store is back."""
    store = Kept()
    async with daemon(store) as there:
        run = await there.start()
        await trio.sleep(9)
        there.link.broken = True
        await trio.sleep(14)
        assert there.service.statistics().driven == 1
        await trio.sleep(3)
        assert there.service.statistics().driven == 0
        await trio.sleep(100)
        there.link.broken = False
        assert (await there.service.wait(run)).reason == "final_answer"
    assert sum(isinstance(event, RunStarted) for event in await store.log(run)) == 1


@pytest.mark.parametrize("at", [0.5, 3.0, 9.0, 12.0, 15.0, 21.0])
async def test_a_run_that_could_not_append_before_the_fence_comes_back_too(at: float, autojump_clock: Clock) -> None:
    """Whether it worked or waited for the store when the executor was fenced, a run goes on when the store is back."""
    store = Kept()
    async with daemon(store) as there:
        run = await there.start()
        await trio.sleep(at)
        there.link.broken = True
        await trio.sleep(100)
        there.link.broken = False
        with trio.fail_after(600):
            assert (await there.service.wait(run)).reason == "final_answer"
    assert sum(isinstance(event, RunStarted) for event in await store.log(run)) == 1


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_run_whose_creation_was_not_answered_in_time_is_driven_all_the_same(
    awaited: bool, autojump_clock: Clock
) -> None:
    """Whoever asked is told that it was lost; it is driven when the store answers, and found by whoever asks again."""
    store = Kept()
    request = RunRequest(task="x", who=SEEKER, run="mine")
    async with daemon(store) as there:
        there.link.late = 90.0
        with pytest.raises(JournalLost):
            await (there.service.run_to_end(request) if awaited else there.service.start(request))
        there.link.late = 0.0
        if awaited:
            assert (await there.service.run_to_end(request)).reason == "final_answer"
        await trio.sleep(600)
    assert sum(isinstance(event, RunEnded) for event in await store.log("mine")) == 1


async def test_a_job_gets_its_runs_by_id(autojump_clock: Clock) -> None:
    """What is left open goes on under the job's new budget, which hears once and before what all had used; what ended
    is answered from the log; what is driven is waited for; what is nobody's is begun.
    """
    store = Kept()

    def request(ordinal: int) -> RunRequest:
        return RunRequest(task="x", who=SEEKER, run=f"job.{ordinal}", job="job")

    async with daemon(store) as first:
        done = await first.service.run_to_end(request(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.service.run_to_end, request(2))
            await trio.sleep(30)
            first.link.broken = True
            nursery.cancel_scope.cancel()
    budget = Scope("job", Limits(tool_calls=10))
    async with daemon(store, resume=False) as second:
        await second.service.resume_rest(jobs=["job"])
        assert second.service.statistics().live == 0
        other = await second.start(run="job.9", job="other")
        await second.service.charge(budget, [f"job.{n}" for n in range(1, 10)], tenant="default", job="job")
        assert (budget.used.tool_calls, budget.used.rounds, budget.unknown) == (2, 3, Amounts())
        again = await second.service.run_to_end(request(1), budget=budget)
        assert again == done
        assert budget.used.tool_calls == 2
        await second.service.wait(other)
        results = []

        async def drive(ordinal: int) -> None:
            results.append(await second.service.run_to_end(request(ordinal), budget=budget))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive, 2)
            nursery.start_soon(drive, 3)
            await trio.sleep(0.5)
            nursery.start_soon(drive, 3)
        assert [result.reason for result in results] == ["final_answer"] * 3
        assert budget.used.tool_calls == 3
        assert budget.used.rounds == 6
        with pytest.raises(DuplicateRun, match="not this one"):
            await second.service.run_to_end(replace(request(1), job="other"))
    assert len((await store.runs(RunQuery(job="job"))).rows) == 3


async def test_many_open_runs_are_taken_up_within_bounds(autojump_clock: Clock) -> None:
    """A thousand go on, no more at once than may be live, though their tenant may have fewer now."""
    store = Kept()
    async with daemon(store) as first:
        for _ in range(1000):
            await first.start()
        await trio.sleep(0.5)
    async with daemon(store, max_live=100, per_tenant=5, script=in_turn(say("done"))) as second:
        await trio.sleep(0.5)
        assert second.service.statistics().driven == 100
        assert second.service.statistics().live == 1000
        assert second.service.statistics().states == {"waiting_model": 100, "running": 900}
        assert await second.service.drain(math.inf) == 0
        assert await second.service.states() == {"completed": 1000}
