"""The four clocks, each with its own error."""

import math

import pytest
import trio

from agents.errors import CallTimeout, ConnectTimeout, InvalidLimits, SilenceTimeout
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.attempt import Clocks
from orchestrator.owner import Owner
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.owner.staged import StagedBackend, one_endpoint, request, running

FLOW = Flow("acme", "job", "run")
ONCE = DispatchConfig(retry=RetryConfig(attempts=1))


def make_owner(backend: StagedBackend, clocks: Clocks) -> Owner:
    return one_endpoint(backend, dispatch=ONCE, clocks=clocks)


async def test_the_connect_clock(autojump_clock: trio.testing.MockClock) -> None:
    """A connection that does not come about in time is the provider's fault, and certainly did no work."""
    async with running(make_owner(StagedBackend(step=60), Clocks(connect=5))) as owner:
        with pytest.raises(ConnectTimeout, match="5 s") as caught:
            await OwnerPort(owner.inbox, FLOW).call(request())
        assert trio.current_time() == pytest.approx(5)
        assert not caught.value.worked


async def test_the_silence_clock_starts_again_with_every_token(autojump_clock: trio.testing.MockClock) -> None:
    """A stream that speaks every 9 s outlives a silence clock of 10 s; one that speaks every 11 s does not."""
    words = ["x"] * 20
    async with running(make_owner(StagedBackend(words=words, step=9), Clocks(silence=10, connect=20))) as owner:
        assert (await OwnerPort(owner.inbox, FLOW).call(request())).usage.output == 20
    async with running(make_owner(StagedBackend(words=words, step=11), Clocks(silence=10, connect=20))) as owner:
        began = trio.current_time()
        with pytest.raises(SilenceTimeout, match="10 s"):
            await OwnerPort(owner.inbox, FLOW).call(request())
        assert trio.current_time() - began == pytest.approx(11 + 10)


async def test_a_slow_reader_is_not_the_providers_silence(autojump_clock: trio.testing.MockClock) -> None:
    """While a reader holds the stream up the silence clock stands still, and it runs again afterwards."""
    backend = StagedBackend(words=["x"] * 5)
    async with running(make_owner(backend, Clocks(connect=100, silence=10, whole=math.inf))) as owner:
        async with OwnerPort(owner.inbox, FLOW).stream(request(), buffer=0) as stream:
            async for _ in stream:
                await trio.sleep(500)
            assert (await stream.reply()).usage.output == 5
        backend.step = 60
        with pytest.raises(SilenceTimeout):
            await OwnerPort(owner.inbox, FLOW).call(request())


async def test_the_whole_clock(autojump_clock: trio.testing.MockClock) -> None:
    """An answer that keeps coming but takes too long in all ends with `CallTimeout`, at the time said."""
    async with running(make_owner(StagedBackend(words=["x"] * 1000), Clocks(whole=100))) as owner:
        with pytest.raises(CallTimeout, match="100 s"):
            await OwnerPort(owner.inbox, FLOW).call(request())
        assert trio.current_time() == pytest.approx(100)
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().live == 0


async def test_a_callers_deadline_ends_a_live_call(autojump_clock: trio.testing.MockClock) -> None:
    """A deadline that passes in the middle of the answer aborts the request on the wire."""
    backend = StagedBackend(words=["x"] * 1000)
    async with running(make_owner(backend, Clocks())) as owner:
        with pytest.raises(CallTimeout):
            await OwnerPort(owner.inbox, FLOW).call(request(), deadline=trio.current_time() + 42)
        assert trio.current_time() == pytest.approx(42)
    assert backend.aborted == 1


async def test_waiting_in_the_queue_is_not_the_providers_fault(autojump_clock: trio.testing.MockClock) -> None:
    """However long a call waits for its turn, the clocks of its attempt start at dispatch."""
    backend = StagedBackend(words=["x"] * 30)
    async with running(make_owner(backend, Clocks(connect=5, silence=5, whole=50))) as owner:
        async with trio.open_nursery() as callers:
            for n in range(5):
                callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(n))).call, request())
        assert trio.current_time() > 150
        assert owner.statistics().endpoints[0].breaker == "closed"


@pytest.mark.parametrize("field", ["connect", "silence", "whole"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_S05_nonsense_clocks_are_refused(field: str, value: float) -> None:
    """S05: a clock of zero, a negative number or NaN is refused by name."""
    with pytest.raises(InvalidLimits, match=f"clocks.{field}"):
        Clocks(**{field: value})
