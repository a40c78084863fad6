"""How the daemon's runs end when it does."""

from contextlib import aclosing

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.errors import Draining
from agents.events import CancelRequested, decode
from agents.runtime import UnknownRun
from orchestrator.views.runs import RunRequest
from tests.agents.whole import assert_whole
from tests.runs.running import SEEKER, SlowJournal, running

Clock = trio.testing.MockClock


async def test_after_close_nothing_new_is_taken_and_the_rest_goes_on(autojump_clock: Clock) -> None:
    """Both ways of starting say that the daemon is ending; what is live ends as it would have."""
    async with running() as world:
        run = await world.start()
        world.service.close()
        with pytest.raises(Draining, match="shutting down"):
            await world.start(run="late")
        with pytest.raises(Draining):
            await world.service.run_to_end(RunRequest(task="x", who=SEEKER, run="late"))
        with pytest.raises(UnknownRun):
            await world.service.view("late")
        assert (await world.service.wait(run)).reason == "final_answer"


async def test_a_drain_waits_for_live_and_queued_runs(autojump_clock: Clock) -> None:
    """It returns with the last of them, long before the deadline."""
    async with running(max_live=1) as world:
        runs = [await world.start() for _ in range(3)]
        assert await world.service.drain(trio.current_time() + 10_000) == 0
        assert trio.current_time() == pytest.approx(3 * 62)
        assert [(await world.service.view(run)).reason for run in runs] == ["final_answer"] * 3
    world.assert_nothing_left()


async def test_a_drain_of_nothing_is_over_at_once(autojump_clock: Clock) -> None:
    """Where no run is live there is nothing to wait for, now and again."""
    async with running() as world:
        assert await world.service.drain() == await world.service.drain(0) == 0
        await world.service.end_all()
        assert trio.current_time() == 0


async def test_at_the_deadline_what_is_left_is_closed_and_told(autojump_clock: Clock) -> None:
    """Live, queued and driven by a waiter: each gets its closing event with the reason in words, and whoever waits for
    it or watches it hears of it.
    """
    async with running(max_live=2) as world:
        runs = [await world.start() for _ in range(4)]
        told: list[str] = []

        async def wait(run: str) -> None:
            told.append((await world.service.wait(run)).message)

        async def watch(run: str) -> None:
            async with aclosing(world.service.events(run)) as events:
                *_, last = [decode(record) async for _, record in events]
            told.append(last.message)  # type: ignore[union-attr]

        async def drive() -> None:
            told.append((await world.service.run_to_end(RunRequest(task="x", who=SEEKER, run="driven"))).message)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            for run in runs:
                nursery.start_soon(wait, run)
                nursery.start_soon(watch, run)
            await trio.sleep(1)
            assert await world.service.drain(trio.current_time() + 9) == 5
            assert trio.current_time() == pytest.approx(10)
            await world.service.end_all()
        assert told == ["the daemon is shutting down"] * 9
        for run in (*runs, "driven"):
            events = await world.events(run)
            assert_whole(events)
            asked = [event for event in events if isinstance(event, CancelRequested)]
            assert [(event.source, event.reason) for event in asked] == [("parent", "cancelled")]
            assert (await world.service.view(run)).reason == "cancelled"
    world.assert_nothing_left()


async def test_a_run_that_is_being_created_at_the_end_is_closed_as_well(autojump_clock: Clock) -> None:
    """Its first event may come after everybody was cancelled; it still gets its last."""
    async with running(journal=SlowJournal) as world:
        async with trio.open_nursery() as nursery:

            async def start() -> None:
                await world.start(run="mine")

            nursery.start_soon(start)
            await trio.sleep(0.5)
            await world.service.end_all()
            assert world.service.statistics().live == 0
        detail = await world.service.detail("mine")
        assert (detail.reason, detail.message) == ("cancelled", "the daemon is shutting down")
        assert_whole(await world.events("mine"))
    world.assert_nothing_left()


async def test_the_end_of_the_nursery_is_the_end_of_its_runs(autojump_clock: Clock) -> None:
    """Cancelling it closes every run, live or queued; a start that comes later leaves nothing open."""
    with trio.CancelScope() as scope:
        async with running(max_live=3) as world:
            runs = [await world.start() for _ in range(6)]
            await trio.sleep(1.5)
            scope.cancel()
    for run in runs:
        assert (await world.service.view(run)).reason == "cancelled"
        assert_whole(await world.events(run))
    with pytest.raises(RuntimeError):
        await world.start(run="late")
    assert_whole(await world.events("late"))
    world.assert_nothing_left()


async def test_a_timeout_counts_from_where_the_run_began(autojump_clock: Clock) -> None:
    """A queued run's own clock has not begun, and its view says when it did."""
    async with running(max_live=1) as world:
        first = await world.start()
        second = await world.start(budget=Limits(timeout=30))
        detail = await world.service.wait(second)
        began = (await world.service.view(first)).ended
        assert began is not None
        assert (detail.reason, detail.started) == ("timeout", pytest.approx(began))
        assert detail.ended == pytest.approx(began + 30)
