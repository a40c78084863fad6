"""Callers and owners that leave at any moment leave nothing behind."""

from collections import Counter

import pytest
import trio

from agents.errors import ModelError, OwnerClosed, Unavailable
from agents.owner_port import OwnerPort
from agents.port import Call, Flow
from orchestrator.owner import Owner
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from tests.owner.staged import Recorder, StagedBackend, assert_balanced, one_endpoint, request, running
from tests.owner.stepping import cancel_at_every_step

TENANTS = {"acme": TenantConfig(limits=(LimitSpec("total_tokens", 10_000),), in_flight=InFlightSpec(calls=5))}


def make_owner(backend: StagedBackend, **options: object) -> Owner:
    return one_endpoint(backend, dispatch=DispatchConfig(tenants=TENANTS), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("failing", [False, True])
async def test_a_caller_cancelled_at_any_step_leaves_every_counter_at_zero(
    streamed: bool, busy: bool, failing: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Wherever a caller is cancelled (queued, connecting, streaming, waiting for a retry), its call goes with it."""
    backend = StagedBackend()
    hook = Recorder()
    attempts = 0

    def plan(n: int, request: object) -> Unavailable | None:
        nonlocal attempts
        attempts += 1
        return Unavailable("broken", status=500) if failing and attempts % 2 else None

    backend.plan = plan
    owner = make_owner(backend, hooks=[hook])

    async def leaver() -> None:
        port = OwnerPort(owner.inbox, Flow("acme", "job", "leaver"))
        if streamed:
            async with port.stream(request("leaver"), buffer=0) as stream:
                async for _ in stream:
                    await trio.sleep(0.25)
                await stream.reply()
        else:
            await port.call(request("leaver"))

    async def bystander() -> None:
        with trio.CancelScope(shield=True):
            await OwnerPort(owner.inbox, Flow("other", "job", "stays")).call(request("bystander"))

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            if busy:
                nursery.start_soon(bystander)
                await trio.lowlevel.checkpoint()
            nursery.start_soon(leaver)

    async def after() -> None:
        await trio.sleep(100)
        assert backend.busy == 0
        assert_balanced(owner)
        hook_counts = Counter(transition.kind for transition in hook.seen)
        assert hook_counts["queued"] == hook_counts["finished"]

    async with running(owner):
        cancelled = await cancel_at_every_step(scenario, after)
    assert cancelled > 10


async def test_an_owner_cancelled_at_any_step_finishes_every_call(autojump_clock: trio.testing.MockClock) -> None:
    """Wherever the owner is cancelled, each caller gets exactly one outcome and every connection is closed."""
    outcomes: list[str] = []
    backends: list[StagedBackend] = []
    callers: trio.Nursery

    async def caller(owner: Owner, n: int) -> None:
        try:
            reply = await OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call(request())
            outcomes.append(reply.finish_reason)
        except ModelError as error:
            outcomes.append(error.kind)

    async def scenario() -> None:
        backend = StagedBackend()
        backends.append(backend)
        owner = make_owner(backend, slots=2)
        outcomes.clear()
        for n in range(4):
            callers.start_soon(caller, owner, n)
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            await trio.sleep(30)
            nursery.cancel_scope.cancel()

    async def after() -> None:
        await trio.sleep(1000)
        assert len(outcomes) == 4
        backend = backends[-1]
        assert backend.busy == 0
        assert backend.opened == backend.closed

    async with trio.open_nursery() as callers:
        cancelled = await cancel_at_every_step(scenario, after)
    assert cancelled > 20


async def test_a_thousand_departures_leave_every_counter_at_zero(autojump_clock: trio.testing.MockClock) -> None:
    """1,000 callers that leave at all moments of a call's life leave slots, limits and queues as they were."""
    backend = StagedBackend()
    owner = make_owner(backend, slots=4)

    async def leaver(n: int) -> None:
        with trio.move_on_after(0.37 * (n % 40)):
            await OwnerPort(owner.inbox, Flow("acme", f"job {n % 7}", str(n))).call(request())

    async with running(owner):
        async with trio.open_nursery() as callers:
            for n in range(1000):
                callers.start_soon(leaver, n)
        await trio.sleep(1000)
        assert backend.busy == 0
        assert (await OwnerPort(owner.inbox, Flow("acme")).call(request())).finish_reason == "stop"


async def test_a_queued_call_vanishes_within_one_turn(autojump_clock: trio.testing.MockClock) -> None:
    """R28: a caller that leaves the queue is gone in the owner's next turn, and the backend never sees its call."""
    backend = StagedBackend()
    owner = make_owner(backend)
    async with running(owner), trio.open_nursery() as callers:
        callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", "first")).call, request("first"))
        await trio.sleep(0.5)
        with trio.move_on_after(1):
            await OwnerPort(owner.inbox, Flow("acme", "job", "leaver")).call(request("leaver"))
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().queued == 0
    assert [sent.messages[0].content for sent in backend.sent] == ["first"]


async def test_streamed_tokens_of_a_departed_caller_are_charged(autojump_clock: trio.testing.MockClock) -> None:
    """A caller that leaves in the middle of a stream has used what was streamed, and its tenant pays for it."""
    backend = StagedBackend(words=["word"] * 100)
    owner = make_owner(backend)
    async with running(owner):
        with trio.move_on_after(54):
            await OwnerPort(owner.inbox, Flow("acme", "job", "run")).call(request(max_tokens=1000))
        await trio.sleep(1)
        service = owner.statistics().tenants["acme"].service
        assert 50 * 2 <= service <= 50 * 2 + 20


async def test_a_caller_gone_before_the_owner_looked_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    """A call that is abandoned while it is still in the inbox is never queued."""
    backend = StagedBackend()
    hook = Recorder()
    owner = make_owner(backend, hooks=[hook])
    async with running(owner):
        call = Call(request(), Flow("acme"))
        owner.inbox.submit_nowait(call)
        call.abandoned = True
        owner.inbox.leave(call)
        await trio.sleep(10)
    assert backend.sent == []
    assert hook.seen == []


async def test_callers_of_an_ended_owner_are_told(autojump_clock: trio.testing.MockClock) -> None:
    """A port that outlives its owner answers every call with `OwnerClosed`."""
    owner = make_owner(StagedBackend())
    async with running(owner):
        pass
    with pytest.raises(OwnerClosed):
        await OwnerPort(owner.inbox, Flow("acme")).call(request())
