"""Streams along a model's backends: what the reader sees when one breaks, and what it is never shown twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import Struct

from agents.errors import OwnerClosed, Refused, Truncated
from agents.messages import Delta
from agents.port import Flow
from orchestrator.backends.simulated.backend import FaultRule, SimConfig, SimLatency, SimProvider, SimulatedBackend
from orchestrator.catalogue import Catalogue, Target
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from orchestrator.router import RoutedPort, RoutedStream, Router
from tests.owner.staged import assert_balanced, request

BREAKS = FaultRule(fault="truncate", after_tokens=5)
REFUSES = FaultRule(fault="refuse")
INVALID = FaultRule(fault="status", status=400)


class Chain(Struct):
    """The model `any`, served by simulated backends `b0`, `b1`, ... in this order, one try at each."""

    providers: list[SimProvider]
    owners: dict[str, Owner]
    port: RoutedPort

    @property
    def arrived(self) -> list[int]:
        return [provider.statistics().arrived for provider in self.providers]

    @property
    def in_flight(self) -> int:
        return sum(provider.statistics().in_flight for provider in self.providers)


@asynccontextmanager
async def chain(*faults: FaultRule | None) -> AsyncIterator[Chain]:
    """A backend for each fault (None: healthy); at the end every book is at zero."""
    providers = [
        SimProvider(SimConfig(faults=() if fault is None else (fault,), latency=SimLatency(chunk_tokens=1)))
        for fault in faults
    ]
    dispatch = DispatchConfig(retry=RetryConfig(attempts=1))
    owners = {
        f"b{n}": Owner(OwnerConfig(f"b{n}", dispatch), [Endpoint(f"e{n}", SimulatedBackend(f"e{n}", provider))])
        for n, provider in enumerate(providers)
    }
    catalogue = Catalogue(models={"any": tuple(Target(name, "sim") for name in owners)})
    async with trio.open_nursery() as nursery:
        for owner in owners.values():
            await nursery.start(owner.run)
        yield Chain(providers, owners, Router(owners, lambda: catalogue).port(Flow("acme", "job", "run")))
        await trio.testing.wait_all_tasks_blocked()
        for owner in owners.values():
            assert_balanced(owner)
        nursery.cancel_scope.cancel()


async def read(stream: RoutedStream) -> tuple[str, int]:
    """What a reader has at the end that obeys resets, and how many there were."""
    text, resets = "", 0
    async for batch in stream:
        for delta in batch:
            if delta.reset:
                text, resets = "", resets + 1
            text += delta.text
    return text, resets


async def test_a_healthy_stream_is_passed_through(autojump_clock: trio.testing.MockClock) -> None:
    """The pieces make up the reply, and no other backend is asked."""
    async with chain(None, None) as backends, backends.port.stream(request()) as stream:
        text, resets = await read(stream)
        assert (text, resets) == ((await stream.reply()).message.content, 0)
        assert backends.arrived == [1, 0]


async def test_a_backend_that_fails_before_the_first_piece_is_not_seen(autojump_clock: trio.testing.MockClock) -> None:
    """As nothing was delivered the reader sees one stream, that of the backend that served."""
    async with chain(REFUSES, REFUSES, None) as backends, backends.port.stream(request()) as stream:
        text, resets = await read(stream)
        assert text == (await stream.reply()).message.content
        assert resets == 0


async def test_a_broken_stream_starts_again_elsewhere_after_a_reset(autojump_clock: trio.testing.MockClock) -> None:
    """A reader that understands resets gets one per backend that broke off, and ends with the reply alone."""
    async with chain(BREAKS, BREAKS, None) as backends, backends.port.stream(request()) as stream:
        text, resets = await read(stream)
        assert text == (await stream.reply()).message.content
        assert resets == 2
        assert backends.arrived == [1, 1, 1]


async def test_the_reset_comes_before_the_next_backend_speaks(autojump_clock: trio.testing.MockClock) -> None:
    """A reader drops what it has at once, not when the next backend's first piece is there."""
    async with chain(BREAKS, None) as backends, backends.port.stream(request()) as stream:
        async for batch in stream:
            if batch == (Delta(reset=True),):
                break
        assert backends.arrived[1] == 0
        await read(stream)


async def test_what_was_delivered_is_not_repeated_to_a_reader_without_resets(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A reader that does not understand resets gets the break as an error, with what came before it."""
    async with chain(BREAKS, None) as backends, backends.port.stream(request(), restartable=False) as stream:
        text, resets = await read(stream)
        with pytest.raises(Truncated) as caught:
            await stream.reply()
        assert text == caught.value.partial != ""
        assert resets == 0
        assert backends.arrived == [1, 0]


async def test_without_resets_an_early_failure_still_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """Before the first piece no reset is needed, so such a reader is served by the next backend as well."""
    async with chain(REFUSES, None) as backends, backends.port.stream(request(), restartable=False) as stream:
        text, _ = await read(stream)
        assert text == (await stream.reply()).message.content


async def test_the_last_failure_ends_the_stream_and_is_told_every_time(autojump_clock: trio.testing.MockClock) -> None:
    """After the last backend the iteration ends, and the reply raises what all of them said, however often asked."""
    async with chain(REFUSES, BREAKS) as backends, backends.port.stream(request()) as stream:
        await read(stream)
        for _ in range(2):
            with pytest.raises(Truncated, match=r"tried b0 \(.*refused the connection\), then b1"):
                await stream.reply()
        assert [batch async for batch in stream] == []


async def test_a_request_at_fault_ends_its_stream(autojump_clock: trio.testing.MockClock) -> None:
    """A 400 is told at once, and nobody else is asked."""
    async with chain(INVALID, None) as backends, backends.port.stream(request()) as stream:
        assert await read(stream) == ("", 0)
        with pytest.raises(Refused):
            await stream.reply()
        assert backends.arrived == [1, 0]


async def test_the_reply_alone_can_be_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    """Who asks for the reply without reading on is served by the next backend too, and may read it afterwards."""
    async with chain(REFUSES, None) as backends, backends.port.stream(request(max_tokens=4)) as stream:
        reply = await stream.reply()
        assert await read(stream) == ("", 0)
        assert reply.message.content


async def test_a_backend_that_takes_no_calls_is_passed_by(autojump_clock: trio.testing.MockClock) -> None:
    """A stream opens at the first backend whose owner takes it; where none does, opening it says so."""
    async with chain(None, None) as backends:
        del backends.owners["b0"]
        async with backends.port.stream(request()) as stream:
            await read(stream)
            await stream.reply()
        backends.owners.clear()
        with pytest.raises(OwnerClosed, match=r"b0.*b1"):
            async with backends.port.stream(request()):
                pass


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.4, 0.5, 0.8])
async def test_leaving_the_block_takes_the_call_with_it(seconds: float, autojump_clock: trio.testing.MockClock) -> None:
    """At whichever backend the stream is when its reader leaves, nothing of it is left there."""
    async with chain(BREAKS, None) as backends:
        with trio.move_on_after(seconds):
            async with backends.port.stream(request()) as stream:
                await read(stream)
                await trio.sleep_forever()
        await trio.testing.wait_all_tasks_blocked()
        assert backends.in_flight == 0


async def test_leaving_early_without_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    """A reader that has seen enough after the second backend's first piece ends the call there."""
    async with chain(BREAKS, None) as backends:
        async with backends.port.stream(request()) as stream:
            after_reset = False
            async for batch in stream:
                if after_reset:
                    break
                after_reset = batch == (Delta(reset=True),)
        await trio.testing.wait_all_tasks_blocked()
        assert backends.in_flight == 0


async def test_a_slow_reader_gets_all_of_a_broken_stream_before_the_reset(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What was in the channel when the backend broke off is read first; then comes the reset, then the answer."""
    order: list[str] = []
    async with chain(BREAKS, None) as backends, backends.port.stream(request()) as stream:
        await trio.sleep(5)
        async for batch in stream:
            order += ["reset" if delta.reset else "text" for delta in batch]
        await stream.reply()
    assert order[:6] == ["text"] * 5 + ["reset"]
    assert "reset" not in order[6:]
