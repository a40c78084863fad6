"""What a run's budget keeps as unknown after a call that ended without a reply: nothing where nothing was sent."""

from collections.abc import Callable

import pytest
import trio
import trio.abc
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import ModelError, Throttled, Unavailable
from agents.events import ModelFailed, ModelReplied, ModelRequested
from agents.journal import MemoryJournal
from agents.loop import AgentRun
from agents.owner_port import OwnerPort
from agents.port import Call, Flow
from agents.spec import AgentSpec
from orchestrator.attempt import Clocks
from orchestrator.owner import Owner
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.owner.staged import Recorder, StagedBackend, one_endpoint, request

# StagedBackend: connected 1 s after the dispatch, written after 2, headers after 3, the reply after 6.
TWICE = DispatchConfig(retry=RetryConfig(attempts=2, base=5.0, throttled_base=5.0, jitter=0.0))


class Worker:
    """One run on an owner, with a budget of its own."""

    def __init__(self, owner: Owner, *, timeout: float | None = None) -> None:
        self.budget = Scope("job", Limits(tokens=60_000))
        self.journal = MemoryJournal()
        agent = AgentSpec(name="agent", model="any", max_tokens=100, limits=Limits(timeout=timeout))
        port = OwnerPort(owner.inbox, Flow("acme", "job", "run"))
        self.run = AgentRun(agent, "x", model=port, journal=self.journal, budget=self.budget)

    async def drive(self, cancel_after: float | None = None) -> int:
        """Runs to its end, or until it is cancelled; returns the tokens that are kept as unknown."""
        await self.run.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run.drive)
            if cancel_after is not None:
                await trio.sleep(cancel_after)
                self.run.cancel()
        assert self.budget.reserved.tokens == 0
        assert self.kept() == self.budget.unknown.tokens
        return self.budget.unknown.tokens

    def kept(self) -> int:
        """What the journal says is unknown."""
        return sum(event.unknown_tokens for event in self.journal.events if isinstance(event, ModelFailed))

    def reserved(self) -> int:
        return sum(event.reserved_tokens for event in self.journal.events if isinstance(event, ModelRequested))


async def busy(owner: Owner) -> None:
    """Takes the owner's only slot for 6 s."""
    owner.inbox.submit_nowait(Call(request(), Flow("globex")))
    await trio.testing.wait_all_tasks_blocked()


async def test_a_run_cancelled_in_the_queue_used_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing was sent, so nothing is unknown; a run whose request was written keeps its whole bound."""
    owner = one_endpoint(StagedBackend())
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        await busy(owner)
        assert await Worker(owner).drive(cancel_after=3.0) == 0
        await trio.sleep(10)
        worker = Worker(owner)
        assert await worker.drive(cancel_after=2.5) == worker.reserved() > 0
        nursery.cancel_scope.cancel()


async def test_a_run_cancelled_before_the_owner_looked_used_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A submit that the owner has not read is taken back whole."""
    assert await Worker(one_endpoint(StagedBackend())).drive(cancel_after=1.0) == 0


async def test_a_timeout_in_the_queue_used_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """The run's clock runs out while its call waits for the slot."""
    owner = one_endpoint(StagedBackend())
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        await busy(owner)
        worker = Worker(owner, timeout=3.0)
        assert await worker.drive() == 0
        assert worker.run.result is not None
        assert worker.run.result.reason == "timeout"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("ends_after", "keeps"), [(0.5, False), (2.5, True)])
async def test_an_owner_that_ends_says_what_it_had_sent(
    ends_after: float, keeps: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Of an attempt that has written its request the cost is unknown, of one that still connects it is none."""
    owner = one_endpoint(StagedBackend())
    worker = Worker(owner)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        owner_scope = nursery.cancel_scope

        async def end() -> None:
            await trio.sleep(ends_after)
            owner_scope.cancel()

        async with trio.open_nursery() as workers:
            workers.cancel_scope.shield = True
            nursery.start_soon(end)
            unknown = await worker.drive()
    assert (unknown > 0) == keeps
    assert worker.budget.used.tokens == 0


async def test_an_owner_that_ends_has_sent_nothing_of_its_queue(autojump_clock: trio.testing.MockClock) -> None:
    """Calls that wait when the owner ends are told so, and cost nothing."""
    owner = one_endpoint(StagedBackend())
    worker = Worker(owner)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        await busy(owner)
        async with trio.open_nursery() as workers:
            workers.cancel_scope.shield = True
            nursery.cancel_scope.deadline = trio.current_time() + 3.0
            assert await worker.drive() == 0
    assert [event.kind for event in worker.journal.events if isinstance(event, ModelFailed)] == ["owner_closed"]


LOST = Unavailable("the connection broke off")
REFUSED = Unavailable("the connection was refused", worked=False)
THROTTLED = Throttled("too many")


@pytest.mark.parametrize(
    ("errors", "cancel_after", "keeps"),
    [
        ([THROTTLED, THROTTLED], None, False),
        ([REFUSED, REFUSED], None, False),
        ([THROTTLED], 4.0, False),
        ([REFUSED], 4.0, False),
        ([LOST], 4.0, True),
        ([LOST, THROTTLED], None, True),
        ([THROTTLED, LOST], None, True),
    ],
)
async def test_one_try_that_may_have_worked_is_enough(
    errors: list[ModelError], cancel_after: float | None, keeps: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Tries that were refused cost nothing, also when the run is cancelled while it waits for the next; lost ones do.

    A cancel after 4 s comes between the first try, which failed after 3 s, and the second.
    """
    backend = StagedBackend()
    backend.plan = lambda n, _: errors[n - 1].with_traceback(None)
    owner = one_endpoint(backend, dispatch=TWICE)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        worker = Worker(owner)
        assert await worker.drive(cancel_after) == (worker.reserved() if keeps else 0)
        assert len(backend.sent) == len(errors)
        nursery.cancel_scope.cancel()


async def test_an_endpoint_out_of_reach_costs_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """Where no connection came about, nothing was sent."""
    owner = one_endpoint(StagedBackend(), dispatch=TWICE, clocks=Clocks(connect=0.5))
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        worker = Worker(owner)
        assert await worker.drive() == 0
        assert [event.kind for event in worker.journal.events if isinstance(event, ModelFailed)] == ["connect_timeout"]
        nursery.cancel_scope.cancel()


class AtStep(trio.abc.Instrument):
    """Does something before the n-th step that trio's tasks take."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self._left = step
        self._act = act

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()

    @property
    def acted(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize("blocked", [False, True])
async def test_cancelled_anywhere_what_was_written_is_never_given_back(
    blocked: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """At every step: a request that was never dispatched is released, one that was written stays unknown."""
    step, kept, released = 0, 0, 0
    acted = True
    while acted:
        step += 1
        backend, recorder = StagedBackend(), Recorder()
        owner = one_endpoint(backend, hooks=[recorder])
        worker = Worker(owner)
        trigger = AtStep(step, worker.run.cancel)
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            if blocked:
                await busy(owner)
            trio.lowlevel.add_instrument(trigger)
            unknown = await worker.drive()
            trio.lowlevel.remove_instrument(trigger)
            nursery.cancel_scope.cancel()
        acted = trigger.acted
        replied = any(isinstance(event, ModelReplied) for event in worker.journal.events)
        flows = [t.flow.tenant for t in recorder.seen if t.kind == "started"]
        if "acme" not in flows:
            assert unknown == 0
            released += 1
        elif len(backend.sent) == len(flows) and not replied:
            assert unknown == worker.reserved()
            kept += 1
    assert kept > 3
    assert released > 3
