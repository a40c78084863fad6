"""A worker's name is one process's for as long as that is at work."""

import pytest
import trio
import trio.testing

from orchestrator.client.errors import Refusal
from orchestrator.pools.errors import ClaimGone, NameTaken
from tests.pools.pooled import LEASE, Hand, Net, daemon, workers


async def test_a_second_process_of_a_name_is_refused_while_a_poll_of_the_first_is_open(autojump_clock):
    """It is told at once what to do, and the first is given what there is."""
    async with daemon() as far, trio.open_nursery() as nursery:
        first, second = (Hand(far.pool, "w", instance) for instance in ("a", "b"))
        nursery.start_soon(lambda: first.poll(seconds=20.0))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(NameTaken, match="a worker called 'w' is at work already: give this one another --name"):
            await second.poll()
        assert trio.current_time() == 0.0
        await far.start()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(first.held), len(second.held)) == (1, 0)


async def test_it_is_refused_between_two_polls_as_well(autojump_clock):
    """A worker whose last poll was answered lately is at work."""
    async with daemon() as far:
        await Hand(far.pool, "w", "a").poll()
        await trio.sleep(LEASE / 3 - 1)
        with pytest.raises(NameTaken):
            await Hand(far.pool, "w", "b").poll()
        await Hand(far.pool, "other", "b").poll()
        await Hand(far.pool, "w", "a").poll()


async def test_a_process_started_again_gets_in_at_once_where_the_connection_broke(autojump_clock):
    """It has the name and the runs within a second, and the process before it, should it live, has neither."""
    async with daemon() as far:
        old, new = (Hand(far.pool, "w", instance) for instance in ("a", "b"))
        run = await far.start()
        grip = await old.take()
        with trio.move_on_after(2):
            await old.poll(seconds=20.0)
        broke = trio.current_time()
        assert (await new.take()).run == run
        assert trio.current_time() - broke <= 1.0
        with pytest.raises(ClaimGone):
            await grip.append(grip.started())
        with pytest.raises(NameTaken):
            await old.poll()


async def test_a_poll_that_broke_off_costs_a_living_process_nothing(autojump_clock):
    """It has polled again before another one is let in."""
    async with daemon() as far, trio.open_nursery() as nursery:
        first = Hand(far.pool, "w", "a")
        with trio.move_on_after(2):
            await first.poll(seconds=20.0)

        async def again():
            await trio.sleep(0.1)
            await first.poll(seconds=20.0)

        nursery.start_soon(again)
        with pytest.raises(NameTaken):
            await Hand(far.pool, "w", "b").poll()


async def test_a_process_that_is_silent_for_a_third_of_the_lease_loses_its_name(autojump_clock):
    """Its runs are given to the one that has the name now, long before the lease is over."""
    async with daemon() as far:
        run = await far.start()
        await Hand(far.pool, "w", "a").take()
        await trio.sleep(LEASE / 3)
        assert (await Hand(far.pool, "w", "b").take()).run == run
        assert trio.current_time() < LEASE


async def test_a_name_is_free_when_its_process_has_said_that_it_ends(autojump_clock):
    """Then nobody waits for anything."""
    async with daemon() as far:
        await Hand(far.pool, "w", "a").poll(ends=True)
        await Hand(far.pool, "w", "b").poll()
        assert trio.current_time() == 0.0


async def test_a_worker_ends_where_its_name_is_taken(autojump_clock):
    """The refusal is a conflict, and no reason to try again."""
    net = Net()
    async with daemon(transport=net), workers(net, "w"):
        await trio.sleep(3)
        with pytest.RaisesGroup(pytest.RaisesExc(Refusal, check=lambda error: error.kind == "name_taken")):
            async with workers(net, "w"):
                await trio.sleep(3)
