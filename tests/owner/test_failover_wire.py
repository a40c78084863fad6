"""Several endpoints on real sockets, one of them ill in a way of its own: the others serve, and nothing is lost."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.attempt import Clocks
from orchestrator.backends.base import Backend
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.secret import Secret
from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimProvider
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.policy.retry import RetryConfig
from tests.backends.flapping import Flapping
from tests.backends.payloads import END, HELLO, event, failure, frame, stream, stream_head, text
from tests.backends.upstream import Script, Talk, in_two_reads, open_files, until_open_files, upstream
from tests.owner.fleet import Fleet
from tests.owner.staged import request, running

SOON = DispatchConfig(retry=RetryConfig(base=0.005, throttled_base=0.005, jitter=0.0))
BREAKER = BreakerConfig(failures=3, wait=0.05, wait_at_most=0.1)
CLOCKS = Clocks(connect=0.15, silence=0.15)
ILL, WELL = "ill", "well"


@asynccontextmanager
async def serving(
    *backends: Backend,
    clocks: Clocks = CLOCKS,
    breaker: BreakerConfig = BREAKER,
    concurrency: ConcurrencyConfig | None = None,
    limits: Sequence[LimitSpec] = (),
) -> AsyncIterator[tuple[Owner, Fleet]]:
    """An owner of these endpoints and callers for it; at the end all books are at zero and no call ended twice."""
    fleet = Fleet()
    endpoints = [
        Endpoint(backend.name, backend, tuple(limits), None, concurrency or ConcurrencyConfig(fixed=2), breaker)
        for backend in backends
    ]
    async with running(Owner(OwnerConfig("test", SOON, clocks), endpoints, hooks=[fleet])) as owner:
        fleet.port = lambda flow: OwnerPort(owner.inbox, flow)
        yield owner, fleet
    fleet.assert_each_ended_once()


def at(base_url: str, name: str, key: str = "") -> OpenAIBackend:
    return OpenAIBackend(OpenAIConfig(name=name, base_url=base_url, api_key=Secret(key) if key else None))


def error_event(**error: object) -> bytes:
    return event({"error": {"message": "something went wrong", **error}})


async def silent(talk: Talk) -> None:
    """Has read the request, and says nothing."""
    await talk.client_left()


async def stops_after_headers(talk: Talk) -> None:
    await talk.send(stream_head())
    await talk.client_left()


async def stops_midway(talk: Talk) -> None:
    await talk.send(stream_head() + frame(text("hel")))
    await talk.client_left()


async def cut_midway(talk: Talk) -> None:
    await talk.send(stream_head() + frame(text("hel")))
    await talk.close()


async def reset_midway(talk: Talk) -> None:
    await talk.send(stream_head() + frame(text("hel")))
    await talk.abort()


ILLNESSES: dict[str, Script] = {
    "error-first-in-a-stream-of-200": stream(error_event(type="server_error")),
    "error-midway-in-a-stream-of-200": stream(text("hel"), error_event(type="server_error")),
    "overload-midway-in-a-stream-of-200": stream(text("hel"), error_event(type="overloaded_error")),
    "silent-after-the-request": silent,
    "silent-after-the-headers": stops_after_headers,
    "silent-midway": stops_midway,
    "cut-midway": cut_midway,
    "reset-midway": reset_midway,
    "500": failure(500, {"message": "oops"}),
    "503": failure(503, {"message": "later"}),
    "529": failure(529, {"message": "full", "type": "overloaded_error"}),
    "429": failure(429, {"message": "slow down"}),
    "429-and-a-time": failure(429, {"message": "slow down"}, retry_after_ms="20"),
    "wrong-key": failure(401, {"message": "no such key", "code": "invalid_api_key"}),
    "no-quota": failure(429, {"message": "pay", "code": "insufficient_quota"}),
    "redirected": failure(302, {"message": "over there"}),
    "not-http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "no-answer": b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
}


@pytest.mark.parametrize("script", ILLNESSES.values(), ids=ILLNESSES)
async def test_one_ill_endpoint_of_two(script: Script) -> None:
    """Whatever one endpoint does on the wire, the other serves every call, each once, and no socket is left open."""
    before = open_files()
    async with upstream(script) as ill, upstream(HELLO) as well:
        async with serving(at(ill.base_url, ILL), at(well.base_url, WELL)) as (_, fleet):
            await fleet.send(12)
        fleet.assert_all_served()
        assert fleet.failed[WELL] == 0
        assert fleet.failed[ILL] >= 1
        assert len(well.received) == 12
    await until_open_files(before)


BROKEN = in_two_reads(stream_head() + frame(text("hel")), frame(error_event(type="server_error")) + END)


@pytest.mark.parametrize("script", [BROKEN, cut_midway, reset_midway, stops_midway])
async def test_a_reader_is_told_to_start_again(script: Script) -> None:
    """A stream that breaks off midway comes from the other endpoint after a reset, and no text is shown twice."""
    seen: list[str] = []
    # both are idle, so the one named first is asked first
    async with (
        upstream(script) as ill,
        upstream(HELLO) as well,
        serving(at(ill.base_url, ILL), at(well.base_url, WELL)) as (owner, _),
        OwnerPort(owner.inbox, Flow("acme", "job", "reader")).stream(request()) as answer,
    ):
        async for batch in answer:
            seen += ["RESET" if delta.reset else delta.text for delta in batch if delta.reset or delta.text]
        assert (await answer.reply()).message.content == "hello"
    assert seen == ["hel", "RESET", "hel", "lo"]


@asynccontextmanager
async def listening(*, accept: bool) -> AsyncIterator[int]:
    """A port where the kernel takes connections; `accept` says whether anybody takes them from there."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def mute(stream: trio.SocketStream) -> None:
            async with stream:
                await trio.sleep_forever()

        if accept:
            nursery.start_soon(trio.serve_listeners, mute, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()
        await listener.aclose()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("accept", [True, False], ids=["accepted", "in-the-backlog"])
async def test_an_endpoint_that_takes_the_connection_and_hangs(scheme: str, accept: bool) -> None:
    """Before TLS stands the connect clock ends the attempt, afterwards the silence clock; the other endpoint serves."""
    before = open_files()
    async with listening(accept=accept) as port, upstream(HELLO) as well:
        kinds: set[str] = set()
        hung = at(f"{scheme}://127.0.0.1:{port}/v1", ILL)
        async with serving(hung, at(well.base_url, WELL), clocks=Clocks(connect=0.1, silence=0.1)) as (_, fleet):
            await fleet.send(12)
            kinds |= set(fleet.kinds[ILL])
        fleet.assert_all_served()
        assert kinds == {"connect_timeout" if scheme == "https" else "silence_timeout"}
    await until_open_files(before)


async def test_an_endpoint_that_comes_and_goes() -> None:
    """Each time nobody listens there it gets a few tries and single probes; each time it listens again, its traffic."""
    async with upstream(HELLO) as well, trio.open_nursery() as nursery:
        flapping = Flapping(nursery)
        await flapping.up()
        backends = at(f"http://127.0.0.1:{flapping.port}/v1", ILL), at(well.base_url, WELL)
        async with serving(*backends) as (owner, fleet):
            for _ in range(3):
                await fleet.send(20)
                assert owner.statistics().endpoints[0].breaker == "closed"
                served, failed = flapping.served, fleet.failed[ILL]
                await flapping.down()
                while owner.statistics().endpoints[0].breaker == "closed":
                    await fleet.send(1)
                await fleet.send(50)
                assert flapping.served == served
                assert fleet.failed[ILL] - failed < 3 + 2 + 10
                await flapping.up()
                with trio.fail_after(5):
                    while owner.statistics().endpoints[0].breaker != "closed":
                        await fleet.send(1)
        fleet.assert_all_served()
        nursery.cancel_scope.cancel()


async def test_nobody_listens_anywhere_and_then_somebody_does() -> None:
    """With every endpoint gone all calls wait; the first that is back serves them, each once."""
    async with trio.open_nursery() as nursery:
        both = Flapping(nursery), Flapping(nursery)
        for one in both:
            await one.up()
        async with serving(*(at(f"http://127.0.0.1:{one.port}/v1", f"e{n}") for n, one in enumerate(both))) as (
            owner,
            fleet,
        ):
            await fleet.send(10)
            for one in both:
                await one.down()
            async with trio.open_nursery() as callers:
                callers.start_soon(fleet.send, 40)
                with trio.fail_after(5):
                    while owner.outage() is None:  # noqa: ASYNC110
                        await trio.sleep(0.005)
                served = both[0].served + both[1].served
                assert len(fleet.outcomes) == 10
                await both[1].up()
            assert both[0].served + both[1].served == served + 40
        fleet.assert_all_served()
        nursery.cancel_scope.cancel()


REFUSALS: dict[str, tuple[bytes, int, bool]] = {
    "529": (failure(529, {"message": "full", "type": "overloaded_error"}), 0, False),
    "529-and-a-time": (failure(529, {"message": "full"}, retry_after_ms="60"), 0, True),
    "503": (failure(503, {"message": "later"}), 0, False),
    "429": (failure(429, {"message": "slow down"}), 1, False),
    "429-and-a-time": (failure(429, {"message": "slow down"}, retry_after_ms="60"), 1, True),
    "429-of-a-limit": (
        failure(
            429,
            {"message": "out of tokens", "type": "tokens", "code": "rate_limit_exceeded"},
            x_ratelimit_limit_tokens="1000000",
            x_ratelimit_remaining_tokens="0",
            x_ratelimit_reset_tokens="60ms",
        ),
        0,
        True,
    ),
}


@pytest.mark.parametrize(("answer", "cuts", "gated"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_as_it_stands_on_the_wire(answer: bytes, cuts: int, gated: bool) -> None:
    """A 529 cuts no concurrency, a bare 429 does, one that names a limit does not; a time named is kept to."""
    times: list[float] = []

    async def refuse(talk: Talk) -> None:
        times.append(trio.current_time())
        await talk.send(answer)

    async def serve(talk: Talk) -> None:
        times.append(trio.current_time())
        await talk.send(HELLO)

    limits = [LimitSpec("total_tokens", 1_000_000.0)]
    async with upstream(serve, refuse, serve) as server:
        concurrency = ConcurrencyConfig(initial=4, at_most=4)
        async with serving(at(server.base_url, WELL), concurrency=concurrency, limits=limits) as (owner, fleet):
            for _ in range(4):
                await fleet.send(1)
            assert owner.policy.endpoints[0].concurrency.cuts == cuts
            assert owner.statistics().endpoints[0].breaker == "closed"
        fleet.assert_all_served()
        if gated:
            assert times[2] - times[1] >= 0.06


async def test_a_wrong_key_beside_a_right_one() -> None:
    """Two keys of one provider, one of them wrong: it is tried once, and no caller hears of it."""
    provider = SimProvider(SimConfig(api_keys=("right",), latency=SimLatency(first_token=0.0, output_rate=1e5)))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        async with serving(at(url, ILL, "wrong"), at(url, WELL, "right"), breaker=BreakerConfig()) as (owner, fleet):
            await fleet.send(1)
            await fleet.send(30)
            assert provider.statistics().refused["key"] == 1
            assert owner.policy.endpoints[0].breaker.fault is not None
        fleet.assert_all_served()
        nursery.cancel_scope.cancel()
