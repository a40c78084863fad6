"""Waiting for a settlement: nobody overshoots, nobody is forgotten, nobody deadlocks."""

import random

import pytest
import trio
import trio.testing

from agents.amounts import NOTHING, Amounts, Limits
from agents.budget import Blocked, Exhausted, Reservation, Scope
from agents.reserve import when_room


async def take(scope: Scope, need: Amounts) -> Reservation | Exhausted:
    def decide() -> Reservation | Exhausted | Blocked:
        return scope.reserve(need)

    answer: Reservation | Exhausted = await when_room(decide)
    return answer


async def test_32_workers_spend_a_shared_budget_to_its_end(autojump_clock: trio.testing.MockClock) -> None:
    """Concurrent workers overshoot by 0, and the first of them stops only when 99 % is spent."""
    limit = 100_000
    job = Scope("job", Limits(tokens=limit))
    stops: list[float] = []
    rng = random.Random(7)

    async def worker() -> None:
        run = job.child("run")
        while True:
            bound = 1_000
            granted = await take(run, Amounts(tokens=bound))
            if isinstance(granted, Exhausted):
                stops.append(job.used.tokens / limit)
                return
            assert job.used.tokens + job.reserved.tokens <= limit
            await trio.sleep(rng.uniform(0.1, 2))
            granted.settle(Amounts(tokens=rng.randint(50, 150)))

    async with trio.open_nursery() as nursery:
        for _ in range(32):
            nursery.start_soon(worker)
    assert len(stops) == 32
    assert min(stops) >= 0.99
    assert job.used.tokens <= limit
    assert (job.reserved, job.waiting) == (NOTHING, 0)


async def test_a_settlement_wakes_one_waiter_at_a_time() -> None:
    """First come, first served: each waiter gets its room before the next is asked."""
    scope = Scope("job", Limits(tokens=10))
    first = await take(scope, Amounts(tokens=10))
    assert isinstance(first, Reservation)
    order: list[int] = []

    async def waiter(number: int) -> None:
        granted = await take(scope, Amounts(tokens=5))
        assert isinstance(granted, Reservation)
        order.append(number)
        granted.release()

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(waiter, number)
            await trio.testing.wait_all_tasks_blocked()
        assert scope.waiting == 5
        first.release()
    assert order == [0, 1, 2, 3, 4]
    assert scope.waiting == 0


async def test_a_waiter_that_leaves_passes_the_word_on() -> None:
    """A waiter cancelled in the very moment it is woken does not take the wake-up with it."""
    scope = Scope("job", Limits(tokens=10))
    first = await take(scope, Amounts(tokens=10))
    assert isinstance(first, Reservation)
    served = trio.Event()
    leaving = trio.CancelScope()

    async def leaves() -> None:
        with leaving:
            await take(scope, Amounts(tokens=10))

    async def stays() -> None:
        granted = await take(scope, Amounts(tokens=10))
        assert isinstance(granted, Reservation)
        granted.release()
        served.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leaves)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(stays)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()
        first.release()
        await served.wait()
    assert (scope.reserved, scope.waiting) == (NOTHING, 0)


async def test_a_waiter_moves_to_the_scope_that_is_in_its_way_now(autojump_clock: trio.testing.MockClock) -> None:
    """Room in the outer scope is no help while the inner one is held; its settlement is."""
    tenant = Scope("tenant", Limits(tokens=10))
    job = tenant.child("job", Limits(tool_calls=1))
    outer = await take(tenant, Amounts(tokens=10))
    inner = await take(job, Amounts(tool_calls=1))
    assert isinstance(outer, Reservation)
    assert isinstance(inner, Reservation)
    done = trio.Event()

    async def waiter() -> None:
        granted = await take(job, Amounts(tokens=1, tool_calls=1))
        assert isinstance(granted, Reservation)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter)
        await trio.testing.wait_all_tasks_blocked()
        assert (tenant.waiting, job.waiting) == (1, 0)
        outer.release()
        await trio.testing.wait_all_tasks_blocked()
        assert (tenant.waiting, job.waiting) == (0, 1)
        inner.release()
        with trio.fail_after(1):
            await done.wait()


@pytest.mark.parametrize("seed", range(20))
async def test_random_trees_of_workers_all_come_to_an_end(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """Workers in a random tree, with random cancellations, all end; no scope overshoots and nothing stays reserved."""
    rng = random.Random(seed)
    scopes = [Scope("root", Limits(tokens=2_000, tool_calls=60))]
    for number in range(6):
        limit = Limits(tokens=rng.choice([None, rng.randint(100, 900)]), tool_calls=rng.choice([None, 10]))
        scopes.append(rng.choice(scopes).child(f"scope {number}", limit))

    async def worker() -> None:
        scope = rng.choice(scopes)
        with trio.move_on_after(rng.uniform(1, 300)):
            for _ in range(30):
                need = Amounts(tokens=rng.randint(1, 60), tool_calls=rng.randint(0, 1))
                granted = await take(scope, need)
                if isinstance(granted, Exhausted):
                    return
                try:
                    await trio.sleep(rng.uniform(0, 3))
                finally:
                    granted.settle(Amounts(tokens=rng.randint(0, need.tokens), tool_calls=need.tool_calls))
                for node in scopes:
                    assert node.limits.tokens is None or node.used.tokens + node.reserved.tokens <= node.limits.tokens

    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            for _ in range(25):
                nursery.start_soon(worker)
    for node in scopes:
        assert (node.reserved, node.waiting) == (NOTHING, 0)
