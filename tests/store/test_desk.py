"""The thread that works for the event loop."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from orchestrator.store.desk import Desk, Work
from orchestrator.store.errors import StoreClosed


def add(works: list[Work]) -> None:
    for work in works:
        work.value = work.move(1)


async def test_results_come_back_to_whom_they_belong() -> None:
    """Each task gets what came of its own work, in whatever groups the work was done."""
    desk = Desk("test", add, group=7)
    results: dict[int, int] = {}

    async def ask(number: int) -> None:
        results[number] = await desk.do(Work(lambda one: number + one))

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(ask, number)
    assert results == {number: number + 1 for number in range(100)}
    await desk.aclose()


async def test_a_fault_of_the_thread_is_told() -> None:
    """Where the handler itself fails everybody of the group hears of it, and the thread goes on."""

    def fail_once(works: list[Work]) -> None:
        if any(work.session == "bad" for work in works):
            raise ZeroDivisionError("a fault")
        add(works)

    desk = Desk("test", fail_once)
    with pytest.raises(ZeroDivisionError):
        await desk.do(Work(lambda one: one, session="bad"))
    assert await desk.do(Work(lambda one: one)) == 1
    await desk.aclose()


async def test_closing_finishes_what_was_handed_over() -> None:
    """What was handed over is done before closing returns, also when that is cancelled; then nothing is taken."""
    done: list[int] = []
    ended: list[str] = []
    desk = Desk("test", add, last=lambda: ended.append("ended"), group=3)
    for number in range(50):
        desk.hand_over(Work(lambda _, number=number: done.append(number)))  # type: ignore[misc]
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.aclose()
    assert done == list(range(50))
    assert ended == ["ended"]
    with pytest.raises(StoreClosed):
        await desk.do(Work(lambda one: one))
    await desk.aclose()


async def test_who_left_is_not_told() -> None:
    """A task that is cancelled while it waits goes at once; its work is done all the same, and wakes no one."""
    desk = Desk("test", add)
    done: list[int] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.do, Work(done.append))
            await wait_all_tasks_blocked()
            scope.cancel()
    assert await desk.do(Work(lambda one: one)) == 1
    assert done == [1]
    await desk.aclose()


async def test_a_cancelled_task_hands_nothing_over() -> None:
    """A task that is cancelled already does not begin."""
    desk = Desk("test", add)
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.do(Work(done.append))
    assert await desk.do(Work(lambda one: one)) == 1
    assert done == []
    await desk.aclose()
