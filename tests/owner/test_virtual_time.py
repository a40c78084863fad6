"""A day of an owner's life in virtual time: nothing polls, so nothing holds the clock up."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio
import trio.testing

from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.attempt import Clocks
from tests.owner.staged import StagedBackend, one_endpoint, request, running

DAY = 86_400.0
FEW = 10


class Steps(trio.abc.Instrument):
    """Counts how often any task has its turn."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@contextmanager
def counted() -> Iterator[Steps]:
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)


async def test_S14_a_day_beside_an_idle_owner_is_one_jump(autojump_clock: trio.testing.MockClock) -> None:
    """S14: a task sleeps for a day while the owner has nothing to do, and hardly any task has a turn meanwhile."""
    async with running(one_endpoint(StagedBackend())) as owner:
        await OwnerPort(owner.inbox, Flow("acme")).call(request())
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        with counted() as steps:
            await trio.sleep(DAY)
        assert trio.current_time() == began + DAY
        assert steps.count < FEW


async def test_S14_a_day_of_waiting_for_an_answer_is_one_jump(autojump_clock: trio.testing.MockClock) -> None:
    """S14: nor does an owner take turns while one call is live, without clocks, and another queued behind it."""
    off = Clocks(connect=math.inf, silence=math.inf, whole=math.inf)
    backend = StagedBackend(words=["late"], step=2 * DAY)
    async with running(one_endpoint(backend, clocks=off)) as owner, trio.open_nursery() as callers:
        for run in ("first", "second"):
            callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", run)).call, request())
        await trio.testing.wait_all_tasks_blocked()
        with counted() as steps:
            await trio.sleep(DAY)
        assert steps.count < FEW
        statistics = owner.statistics()
        assert (statistics.live, statistics.queued) == (1, 1)
    assert len(backend.sent) == 2
