"""One call's way through an owner: in, out, and every way it can be refused."""

import math

import pytest
import trio

from agents.errors import OwnerClosed, QueueTimeout, Refused, Throttled, TooLarge, Truncated, Unavailable
from agents.owner_port import OwnerPort
from agents.port import Call, Flow, Priority
from orchestrator.inbox import CallInbox
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import LimitSpec
from tests.owner.staged import Recorder, StagedBackend, one_endpoint, request, running

FLOW = Flow("acme", "job", "run")


async def test_a_call_returns_the_whole_reply(autojump_clock: trio.testing.MockClock) -> None:
    """A caller who wants one answer gets it whole, with its usage, and every transition is seen once in order."""
    hook = Recorder()
    async with running(one_endpoint(StagedBackend(), hooks=[hook])) as owner:
        reply = await OwnerPort(owner.inbox, FLOW).call(request())
    assert reply.message.content == "one two"
    assert reply.usage.output == 2
    assert hook.kinds() == ["queued", "started", "first_token", "finished"]
    assert hook.seen[-1].seconds == pytest.approx(6.0)


async def test_a_stream_yields_deltas_as_they_come(autojump_clock: trio.testing.MockClock) -> None:
    """A streaming caller sees each delta when it arrives, and the reply after the last."""
    async with running(one_endpoint(StagedBackend())) as owner:
        port = OwnerPort(owner.inbox, FLOW)
        async with port.stream(request()) as stream:
            seen = [(trio.current_time(), "".join(delta.text for delta in batch)) async for batch in stream]
            reply = await stream.reply()
    assert seen == [(pytest.approx(4.0), "one "), (pytest.approx(5.0), "two")]
    assert reply.message.content == "one two"


async def test_a_slow_reader_stops_the_upstream_read_and_nobody_else(autojump_clock: trio.testing.MockClock) -> None:
    """A reader that takes nothing holds up its own stream at the buffer's size; another call passes it by."""
    backend = StagedBackend(words=[str(n) for n in range(20)])
    async with running(one_endpoint(backend, slots=2)) as owner:
        port = OwnerPort(owner.inbox, FLOW)
        async with port.stream(request(), buffer=2) as stream:
            await trio.sleep(1000)
            assert backend.busy == 1
            reply = await port.call(request())
            assert reply.usage.output == 20
            texts = [delta.text async for batch in stream for delta in batch]
            assert (await stream.reply()).message.content == "".join(texts)


async def test_calls_wait_for_a_slot(autojump_clock: trio.testing.MockClock) -> None:
    """No more calls are in flight than there are slots, and all are served."""
    backend = StagedBackend()
    async with running(one_endpoint(backend, slots=3)) as owner, trio.open_nursery() as callers:
        for n in range(10):
            callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
    assert backend.peak == 3
    assert len(backend.sent) == 10
    assert backend.opened == backend.closed == 3


async def test_a_refused_request_is_not_retried(autojump_clock: trio.testing.MockClock) -> None:
    """A 400 goes straight back to the caller after one attempt (R18: and does not trip the breaker)."""
    backend = StagedBackend()
    backend.plan = lambda n, request: Refused("bad field", status=400) if n <= 10 else None
    async with running(one_endpoint(backend)) as owner:
        port = OwnerPort(owner.inbox, FLOW)
        for n in range(10):
            with pytest.raises(Refused, match="bad field"):
                await port.call(request())
            assert len(backend.sent) == n + 1
        assert owner.statistics().endpoints[0].breaker == "closed"
        assert (await port.call(request())).finish_reason == "stop"


async def test_a_failed_attempt_is_retried_with_its_place(autojump_clock: trio.testing.MockClock) -> None:
    """A 500 is tried again after a backoff, ahead of a call that came later in the same job."""
    backend = StagedBackend()
    backend.plan = lambda n, request: Unavailable("broken", status=500) if n == 1 else None
    hook = Recorder()
    async with running(one_endpoint(backend, hooks=[hook])) as owner, trio.open_nursery() as callers:
        callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", "first")).call, request("first"))
        await trio.sleep(0.5)
        for n in range(3):
            callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", f"later {n}")).call, request(f"later {n}"))
            await trio.sleep(0.1)
    texts = [sent.messages[0].content for sent in backend.sent]
    assert texts == ["first", "later 0", "first", "later 1", "later 2"]
    assert hook.outcomes() == ["ok"] * 4
    assert hook.kinds().count("retrying") == 1


async def test_a_throttled_call_waits_as_long_as_it_was_told(autojump_clock: trio.testing.MockClock) -> None:
    """`retry-after` is obeyed and not shortened, and nothing else is sent to that endpoint meanwhile."""
    backend = StagedBackend()
    backend.plan = lambda n, request: Throttled("slow down", retry_after=30.0) if n == 1 else None
    async with running(one_endpoint(backend)) as owner, trio.open_nursery() as callers:
        callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", "a")).call, request("a"))
        await trio.sleep(10)
        await OwnerPort(owner.inbox, Flow("other", "job", "b")).call(request("b"))
        assert trio.current_time() >= 33.0


async def test_a_streamed_answer_starts_again_with_a_reset(autojump_clock: trio.testing.MockClock) -> None:
    """A stream that breaks after its first words is tried again, and the reader is told to drop them."""
    backend = StagedBackend()
    calls = 0

    class Breaking(StagedBackend):
        pass

    def plan(n: int, request: object) -> None:
        nonlocal calls
        calls = n
        backend.words = ("half ",) if n == 1 else ("whole",)

    backend.plan = plan
    original = backend.connect

    def connect() -> object:
        connection = original()
        send = connection.send

        async def broken_send(request: object, progress: object) -> object:
            reply = await send(request, progress)  # type: ignore[arg-type]
            if calls == 1:
                raise Truncated("the stream ended early", partial="half ")
            return reply

        connection.send = broken_send  # type: ignore[method-assign,assignment]
        return connection

    backend.connect = connect  # type: ignore[method-assign,assignment]
    async with running(one_endpoint(backend)) as owner, OwnerPort(owner.inbox, FLOW).stream(request()) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        reply = await stream.reply()
    assert [(delta.text, delta.reset) for delta in deltas] == [("half ", False), ("", True), ("whole", False)]
    assert reply.message.content == "whole"


async def test_a_call_larger_than_a_limit_is_refused_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A call that no limit could ever admit is told so, with the limit's name, and is never queued."""
    backend = StagedBackend()
    endpoint = Endpoint("one", backend, limits=(LimitSpec("total_tokens", 1000),))
    async with running(Owner(OwnerConfig("test"), [endpoint])) as owner:
        with pytest.raises(TooLarge, match="total_tokens/min"):
            await OwnerPort(owner.inbox, FLOW).call(request(max_tokens=5000))
    assert backend.sent == []


async def test_a_deadline_ends_a_queued_call(autojump_clock: trio.testing.MockClock) -> None:
    """A call whose deadline passes in the queue gets `QueueTimeout` at that time and is never sent."""
    backend = StagedBackend(words=["x"] * 50)
    async with running(one_endpoint(backend)) as owner, trio.open_nursery() as callers:
        callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", "long")).call, request("long"))
        await trio.sleep(1)
        with pytest.raises(QueueTimeout, match="10"):
            await OwnerPort(owner.inbox, FLOW).call(request("late"), deadline=trio.current_time() + 10)
        assert trio.current_time() == pytest.approx(11.0)
    assert [sent.messages[0].content for sent in backend.sent] == ["long"]


@pytest.mark.parametrize("ahead", [-1.0, -math.inf])
async def test_S05_a_deadline_in_the_past_is_expired_on_arrival(
    ahead: float, autojump_clock: trio.testing.MockClock
) -> None:
    """S05: a negative deadline means already expired, and the call ends before it is queued."""
    async with running(one_endpoint(StagedBackend())) as owner:
        with pytest.raises(QueueTimeout):
            await OwnerPort(owner.inbox, FLOW).call(request(), deadline=trio.current_time() + ahead)


async def test_S05_a_nan_deadline_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """S05: NaN compares as never due, so it is refused with a message instead of waiting for ever."""
    async with running(one_endpoint(StagedBackend())) as owner:
        with pytest.raises(Refused, match="NaN"):
            await OwnerPort(owner.inbox, FLOW).call(request(), deadline=math.nan)


async def test_a_tenant_cannot_exceed_its_highest_priority(autojump_clock: trio.testing.MockClock) -> None:
    """A call that asks for more urgency than its tenant may use is served at the highest it may."""
    hook = Recorder()
    tenants = {"acme": TenantConfig(highest_priority=Priority.BATCH)}
    owner = one_endpoint(StagedBackend(), hooks=[hook], dispatch=DispatchConfig(tenants=tenants))
    async with running(owner):
        await OwnerPort(owner.inbox, FLOW, Priority.INTERACTIVE).call(request())
    assert {transition.priority for transition in hook.seen} == {Priority.BATCH}


async def test_closing_finishes_what_is_held_and_refuses_the_rest(autojump_clock: trio.testing.MockClock) -> None:
    """After `close` the calls held are served, new ones are refused, and `run` returns."""
    backend = StagedBackend()
    owner = one_endpoint(backend)
    outcomes: list[str] = []

    async def caller(n: int) -> None:
        reply = await OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call(request())
        outcomes.append(reply.finish_reason)

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        for n in range(3):
            nursery.start_soon(caller, n)
        await trio.sleep(0.5)
        owner.close()
        with pytest.raises(OwnerClosed):
            await OwnerPort(owner.inbox, FLOW).call(request())
    assert outcomes == ["stop"] * 3
    assert backend.opened == backend.closed == 1


async def test_a_cancelled_owner_finishes_every_call(autojump_clock: trio.testing.MockClock) -> None:
    """When the owner is cancelled, callers that are live, queued, in the inbox or before it all get `OwnerClosed`."""
    backend = StagedBackend()
    owner = one_endpoint(backend)
    owner.inbox = CallInbox("test", size=2)
    closed = 0

    async def caller(n: int) -> None:
        nonlocal closed
        with pytest.raises(OwnerClosed):
            await OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call(request())
        closed += 1

    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        for n in range(5):
            callers.start_soon(caller, n)
        await trio.sleep(2.5)
        for n in range(5, 12):
            callers.start_soon(caller, n)
        nursery.cancel_scope.cancel()
    assert closed == 12
    assert backend.busy == 0
    assert backend.opened == backend.closed


async def test_an_adapter_that_crashes_costs_its_call_only(autojump_clock: trio.testing.MockClock) -> None:
    """R17: an exception of an adapter becomes an error of that call; the owner serves the next one."""
    backend = StagedBackend()

    def plan(n: int, request: object) -> None:
        if n <= 6:
            raise KeyError("choices")

    backend.plan = plan
    async with running(one_endpoint(backend)) as owner:
        with pytest.raises(Unavailable, match="KeyError"):
            await OwnerPort(owner.inbox, FLOW).call(request())
        await trio.sleep(300)
        assert (await OwnerPort(owner.inbox, FLOW).call(request())).finish_reason == "stop"


async def test_an_adapter_that_cannot_connect_costs_its_call_only(autojump_clock: trio.testing.MockClock) -> None:
    """An exception while a connection is made fails that attempt; when it can be made again calls are served."""
    backend = StagedBackend()
    connect = backend.connect
    tries = 0

    def failing() -> object:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise OSError("no more files")
        return connect()

    backend.connect = failing  # type: ignore[method-assign,assignment]
    async with running(one_endpoint(backend)) as owner:
        assert (await OwnerPort(owner.inbox, FLOW).call(request())).finish_reason == "stop"
    assert tries == 3


async def test_an_outcome_is_set_once() -> None:
    """The first outcome of a call stands; a second is ignored and says so."""
    call = Call(request(), FLOW)
    assert call.resolve(Refused("first"))
    assert not call.resolve(Refused("second"))
    with pytest.raises(Refused, match="first"):
        call.result()
