"""Runs that somebody wants the result of, as jobs do, while they wait for people."""

import pytest
import trio

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.origin import RunLeft
from agents.result import RunResult
from orchestrator.views.runs import RunRequest
from tests.approvals.asking_people import CLERK, ONE, Desk, until_asked
from tests.runs.lasting import Daemon, Kept, daemon

REQUEST = RunRequest(task="x", who=CLERK, run="job-1.0", job="job-1")


class Worker:
    """Asks for the result of one run, in a task of its own."""

    def __init__(self, one: Daemon, budget: Scope | None = None) -> None:
        self.result: RunResult | None = None
        self.left = False
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self._one = one
        self._budget = budget

    async def work(self) -> None:
        with self.scope:
            try:
                self.result = await self._one.service.run_to_end(REQUEST, budget=self._budget)
            except RunLeft:
                self.left = True
        self.ended.set()


async def test_a_job_gets_the_result_in_the_end(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever wants a run's result has it when people have answered, and all of it is counted in the budget given."""
    budget = Scope("job", Limits())
    desk = Desk()
    async with daemon(Kept(), script=ONE, catalogue=desk.catalogue) as one, trio.open_nursery() as nursery:
        worker = Worker(one, budget)
        nursery.start_soon(worker.work)
        (asked,) = await until_asked(one.service)
        assert asked.job == "job-1"
        await trio.sleep(1000)
        await one.service.approvals.decide(asked.id, "approved", by="me")
        await worker.ended.wait()
        assert worker.result is not None
        assert worker.result.answer == "done"
        assert budget.used.rounds == 2
        assert budget.reserved == NOTHING
        assert one.service.statistics().live == 0


async def test_a_worker_that_is_cancelled_takes_its_waiting_run_away(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelling whoever wants the result ends the run that waits for people, and voids what it asked."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one, trio.open_nursery() as nursery:
        worker = Worker(one)
        nursery.start_soon(worker.work)
        (asked,) = await until_asked(one.service)
        worker.scope.cancel()
        await worker.ended.wait()
        assert (await one.service.wait(REQUEST.run)).state == "cancelled"
        assert (await one.service.approvals.show(asked.id)).outcome == "void"
        assert one.service.statistics().live == 0


@pytest.mark.parametrize("woken", [False, True])
async def test_a_run_that_was_left_waiting_waits_for_its_job(
    woken: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """After a restart only its job goes on with the run, whether the answer comes before it asks for that or after."""
    store, desk, budget = Kept(), Desk(), Scope("job", Limits())
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one, trio.open_nursery() as nursery:
        worker = Worker(one)
        nursery.start_soon(worker.work)
        (asked,) = await until_asked(one.service)
        await one.service.end_all()
        await worker.ended.wait()
        assert worker.left
    async with daemon(store, script=ONE, catalogue=desk.catalogue, resume=False) as two:
        await two.service.resume_rest({"job-1"})
        if woken:
            await two.service.approvals.decide(asked.id, "approved", by="me")
            assert two.service.statistics().live == 0
        async with trio.open_nursery() as nursery:
            worker = Worker(two, budget)
            nursery.start_soon(worker.work)
            if not woken:
                await trio.sleep(100)
                await two.service.approvals.decide(asked.id, "approved", by="me")
            await worker.ended.wait()
        assert worker.result is not None
        assert worker.result.state == "completed"
        assert budget.used.rounds == 1
    assert desk.sent == {"anna": 1}


async def test_answered_and_cancelled_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A worker that is cancelled in the moment in which its run is woken leaves nothing behind, and the run ends."""
    desk = Desk()
    async with daemon(Kept(), script=ONE, catalogue=desk.catalogue) as one, trio.open_nursery() as nursery:
        worker = Worker(one)
        nursery.start_soon(worker.work)
        (asked,) = await until_asked(one.service)
        await one.service.approvals.decide(asked.id, "approved", by="me")
        worker.scope.cancel()
        await worker.ended.wait()
        detail = await one.service.wait(REQUEST.run)
        assert detail.state == "cancelled"
        assert not desk.sent
        assert one.service.statistics().live == 0
        assert not +one.models.live
