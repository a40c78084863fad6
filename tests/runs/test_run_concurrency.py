"""Runs, watchers, cancellations and starts at once, in any order."""

from collections import Counter
from contextlib import aclosing

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import QueueFull
from agents.events import RunEnded, decode
from agents.runtime import UnknownRun
from orchestrator.views.runs import RunRequest
from tests.agents.whole import assert_whole
from tests.runs.running import SEEKER, Failing, SlowJournal, World, running

Clock = trio.testing.MockClock
moments = st.floats(0, 70, allow_nan=False)


def in_virtual_time(main: object, *args: object) -> None:
    """Runs one example of a property under a clock of its own."""
    trio.run(main, *args, clock=trio.testing.MockClock(autojump_threshold=0))  # type: ignore[arg-type]


@given(st.lists(st.tuples(moments, st.integers(0, 9), st.sampled_from([0, 0, 1, 25])), max_size=12), moments)
@settings(max_examples=40)
def test_watchers_who_join_at_any_time_see_the_same_events(
    watchers: list[tuple[float, int, float]], cancelled: float
) -> None:
    """From whichever number they ask on, fast or slow, each gets every event behind it, once, to the closing one."""

    async def main() -> None:
        seen: list[tuple[int, list[tuple[int, bytes]]]] = []
        async with running(latency=3) as world:
            run = await world.start()

            async def watch(joins: float, after: int, pause: float) -> None:
                await trio.sleep(joins)
                mine: list[tuple[int, bytes]] = []
                async with aclosing(world.service.events(run, after)) as events:
                    async for event in events:
                        mine.append(event)
                        await trio.sleep(pause)
                seen.append((after, mine))

            async with trio.open_nursery() as nursery:
                for watcher in watchers:
                    nursery.start_soon(watch, *watcher)
                await trio.sleep(cancelled)
                await world.service.cancel(run)
            whole = [event async for event in world.service.events(run)]
            assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
            assert_whole(await world.events(run))
            assert len(seen) == len(watchers)
            for after, mine in seen:
                assert mine == whole[after:]

    in_virtual_time(main)


async def test_events_are_seen_when_they_happen(autojump_clock: Clock) -> None:
    """A watcher has each event at the very moment of it, and is done with the run."""
    async with running() as world:
        run = await world.start()
        times = [trio.current_time() async for _ in world.service.events(run)]
        assert times == [pytest.approx(time) for time in (0, 0, 0, 1, 1, 61, 61, 62, 62)]
        assert trio.current_time() == pytest.approx(62)


async def test_a_watcher_is_not_left_waiting_for_a_lost_log(autojump_clock: Clock) -> None:
    """Where a run ends without a closing event, since its log takes no more, its watchers end with it."""
    async with running(journal=lambda log: Failing(log, after=4)) as world:
        run = await world.start()
        types = [decode(record) async for _, record in world.service.events(run)]
        assert len(types) == 4
        assert trio.current_time() == pytest.approx(1)
        assert (await world.service.view(run)).reason == "internal_error"
    world.assert_nothing_left()


async def test_a_slow_watcher_slows_nobody(autojump_clock: Clock) -> None:
    """One that reads an event an hour leaves the run, and the other watchers, as fast as they were."""
    async with running() as world:
        run = await world.start()
        times: list[float] = []

        async def watch(pause: float) -> None:
            async with aclosing(world.service.events(run)) as events:
                async for _ in events:
                    await trio.sleep(pause)
            times.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, 3600)
            for _ in range(50):
                nursery.start_soon(watch, 0)
            await world.service.wait(run)
            assert trio.current_time() == pytest.approx(62)
        assert times[:50] == [pytest.approx(62)] * 50


async def test_a_watcher_that_goes_leaves_nothing(autojump_clock: Clock) -> None:
    """A thousand watchers cancelled in the middle: the run and a later watcher don't notice."""
    async with running() as world:
        run = await world.start()

        async def watch() -> None:
            async with aclosing(world.service.events(run)) as events:
                async for _ in events:
                    pass

        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(watch)
            await trio.sleep(30)
            nursery.cancel_scope.cancel()
        assert len([event async for event in world.service.events(run)]) == (await world.service.detail(run)).events
    world.assert_nothing_left()


async def test_watching_goes_on_after_a_run_was_forgotten(autojump_clock: Clock) -> None:
    """Whoever watches when the run is forgotten still gets all of it; nobody can begin to watch then."""
    async with running(keep_ended=0) as world:
        run = await world.start()
        seen = [number async for number, _ in _slowly(world, run)]
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) == 9
        with pytest.raises(UnknownRun):
            await anext(world.service.events(run))


async def _slowly(world: World, run: str):  # type: ignore[no-untyped-def]
    async with aclosing(world.service.events(run)) as events:
        async for event in events:
            yield event
            await trio.sleep(20)


@given(
    st.lists(st.tuples(st.floats(0, 60), moments, st.booleans()), min_size=1, max_size=10),
    st.integers(1, 4),
    st.one_of(st.none(), moments),
)
@settings(max_examples=80)
def test_cancelled_at_any_moment_a_run_closes_once(
    runs: list[tuple[float, float, bool]], max_live: int, shutdown: float | None
) -> None:
    """Started by `start` or driven by its waiter, cancelled whenever, shut down or not: one closing event, all zero."""

    async def main() -> None:
        async with running(max_live=max_live, keep_ended=100) as world:

            async def one(number: int, starts: float, cancelled: float, driven: bool) -> None:
                await trio.sleep(starts)
                request = RunRequest(task="x", who=SEEKER, run=f"r{number}")
                if driven:
                    with trio.move_on_after(cancelled):
                        await world.service.run_to_end(request)
                    return
                await world.service.start(request)
                await trio.sleep(cancelled)
                await world.service.cancel(request.run)

            async with trio.open_nursery() as nursery:
                for number, run in enumerate(runs):
                    nursery.start_soon(one, number, *run)
                if shutdown is not None:
                    await trio.sleep(70 + shutdown)
                    await world.service.end_all()
                    assert world.service.statistics().live == 0
            await world.service.drain()
            world.assert_nothing_left()
            assert (await world.service.page()).total == len(runs)
            finished = Counter[tuple[str, str]]()
            for number in range(len(runs)):
                events = await world.events(f"r{number}")
                assert_whole(events)
                ended = events[-1]
                assert isinstance(ended, RunEnded)
                assert ended.reason in ("cancelled", "final_answer")
                finished[ended.state, ended.reason] += 1
            assert world.finished_in_metrics() == finished

    in_virtual_time(main)


@given(st.integers(1, 6), st.lists(st.tuples(st.floats(0, 200), st.sampled_from("ab")), min_size=1, max_size=40))
@settings(max_examples=40)
def test_a_tenants_cap_is_exact_under_concurrent_starts(cap: int, starts: list[tuple[float, str]]) -> None:
    """Never more than the cap, and never refused below it."""

    async def main() -> None:
        async with running(per_tenant=cap) as world:

            def held(tenant: str) -> int:
                return sum(live for flow, live in world.models.live.items() if flow.tenant == tenant)

            async def start(at: float, tenant: str) -> None:
                await trio.sleep(at)
                before = held(tenant)
                if before < cap:
                    await world.start(tenant=tenant)
                else:
                    with pytest.raises(QueueFull):
                        await world.start(tenant=tenant)
                assert held(tenant) <= cap

            async with trio.open_nursery() as nursery:
                for at, tenant in starts:
                    nursery.start_soon(start, round(at), tenant)
        world.assert_nothing_left()

    in_virtual_time(main)


async def test_a_client_that_leaves_while_its_run_is_created_leaves_a_whole_run(autojump_clock: Clock) -> None:
    """Cancelled in the middle of `start`, when its first event is on its way, the run comes to be and goes on."""
    async with running(journal=SlowJournal) as world:
        with trio.move_on_after(0.5):
            await world.start(run="mine")
        assert trio.current_time() == 1
        assert (await world.service.wait("mine")).reason == "final_answer"
        assert_whole(await world.events("mine"))
    world.assert_nothing_left()


async def test_pages_stay_put_while_runs_come_and_go(autojump_clock: Clock) -> None:
    """Paging through slowly, with runs starting, ending and forgotten, no run is seen twice, and none that stays is
    missed.
    """
    async with running(keep_ended=5) as world:
        stays = [await world.start() for _ in range(30)]
        seen: list[str] = []
        cursor = ""
        while True:
            page = await world.service.page(cursor=cursor, size=4)
            seen += [view.run for view in page.runs]
            for _ in range(3):
                await world.service.cancel(await world.start())
            await trio.sleep(1)
            cursor = page.next
            if not cursor:
                break
        assert len(seen) == len(set(seen))
        assert seen == stays[::-1]
