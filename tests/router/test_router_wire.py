"""A model with two backends on real sockets, the first of them ill: the second serves, until the first is back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agents.port import Flow
from orchestrator.attempt import Clocks
from orchestrator.backends.base import Backend
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.catalogue import Catalogue, Target
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from orchestrator.router import Router
from tests.backends.flapping import Flapping
from tests.backends.payloads import END, HELLO, event, failure, frame, stream_head, text
from tests.backends.upstream import Script, Talk, in_two_reads, open_files, until_open_files, upstream
from tests.owner.fleet import Fleet
from tests.owner.staged import assert_balanced, request

SOON = DispatchConfig(retry=RetryConfig(attempts=3, base=0.005, throttled_base=0.005, jitter=0.0))
BREAKER = BreakerConfig(failures=3, wait=0.05, wait_at_most=0.1)


def at(base_url: str, name: str) -> OpenAIBackend:
    return OpenAIBackend(OpenAIConfig(name=name, base_url=base_url))


@asynccontextmanager
async def routed(first: Backend, second: Backend) -> AsyncIterator[tuple[Router, dict[str, Owner], Fleet]]:
    """A router over a backend of one endpoint each; at the end all books are at zero and no call ended twice."""
    fleet = Fleet()
    owners = {
        backend.name: Owner(
            OwnerConfig(backend.name, SOON, Clocks(connect=0.15, silence=0.15)),
            [Endpoint(backend.name, backend, (), None, ConcurrencyConfig(fixed=4), BREAKER)],
            hooks=[fleet],
        )
        for backend in (first, second)
    }
    catalogue = Catalogue(models={"any": (Target("first", "m"), Target("second", "m"))})
    router = Router(owners, lambda: catalogue)
    fleet.port = router.port
    async with trio.open_nursery() as nursery:
        for owner in owners.values():
            await nursery.start(owner.run)
        yield router, owners, fleet
        await trio.testing.wait_all_tasks_blocked()
        for owner in owners.values():
            assert_balanced(owner)
        nursery.cancel_scope.cancel()
    fleet.assert_each_ended_once()


async def silent(talk: Talk) -> None:
    await talk.client_left()


async def cut(talk: Talk) -> None:
    await talk.send(stream_head() + frame(text("hel")))
    await talk.close()


BROKEN = in_two_reads(
    stream_head() + frame(text("hel")), frame(event({"error": {"message": "oops", "type": "server_error"}})) + END
)
ILLNESSES: dict[str, Script] = {
    "silent": silent,
    "error-midway-in-a-stream-of-200": BROKEN,
    "cut-midway": cut,
    "500": failure(500, {"message": "oops"}),
    "529": failure(529, {"message": "full"}),
    "429": failure(429, {"message": "slow down"}),
    "wrong-key": failure(401, {"message": "no such key", "code": "invalid_api_key"}),
}


@pytest.mark.parametrize("script", ILLNESSES.values(), ids=ILLNESSES)
async def test_an_ill_backend_before_a_well_one(script: Script) -> None:
    """Whatever the first backend does on the wire, the second serves every call, each once."""
    before = open_files()
    async with upstream(script) as ill, upstream(HELLO) as well:
        async with routed(at(ill.base_url, "first"), at(well.base_url, "second")) as (_, _, fleet):
            await fleet.send(12)
        fleet.assert_all_served()
        assert len(well.received) == 12
    await until_open_files(before)


@pytest.mark.parametrize("script", [BROKEN, cut])
async def test_a_stream_starts_again_at_the_next_backend(script: Script) -> None:
    """After the first backend's tries its reader starts again once more, and ends with the second's answer."""
    seen: list[str] = []
    async with (
        upstream(script) as ill,
        upstream(HELLO) as well,
        routed(at(ill.base_url, "first"), at(well.base_url, "second")) as (router, _, _),
        router.port(Flow("acme", "job", "reader")).stream(request()) as answer,
    ):
        async for batch in answer:
            seen += ["RESET" if delta.reset else delta.text for delta in batch if delta.reset or delta.text]
        assert (await answer.reply()).message.content == "hello"
    assert seen == ["hel", "RESET"] * 3 + ["hel", "lo"]


async def test_a_dead_backend_costs_nothing_until_it_is_back() -> None:
    """While nobody listens at the first backend its calls go on at once; when somebody does, they go there again."""
    async with upstream(HELLO) as second, trio.open_nursery() as nursery:
        first = Flapping(nursery)
        await first.up()
        dead_or_alive = at(f"http://127.0.0.1:{first.port}/v1", "first")
        async with routed(dead_or_alive, at(second.base_url, "second")) as (_, owners, fleet):
            await fleet.send(20)
            assert (first.served, len(second.received)) == (20, 0)
            await first.down()
            await fleet.send(100)
            assert (first.served, len(second.received)) == (20, 100)
            # three failures open the breaker, with at most as many as there are slots; then single probes
            assert fleet.failed["first"] < 3 + 4 + 20
            await first.up()
            with trio.fail_after(5):
                while owners["first"].outage() is not None or first.served == 20:
                    await fleet.send(1)
            second_served = len(second.received)
            await fleet.send(20)
            assert len(second.received) == second_served
        fleet.assert_all_served()
        nursery.cancel_scope.cancel()


async def test_both_backends_die_and_one_comes_back() -> None:
    """With nobody anywhere all calls wait at the last backend, and are answered once when it is back."""
    async with trio.open_nursery() as nursery:
        first, second = Flapping(nursery), Flapping(nursery)
        for one in (first, second):
            await one.up()
        urls = [f"http://127.0.0.1:{one.port}/v1" for one in (first, second)]
        async with routed(at(urls[0], "first"), at(urls[1], "second")) as (_, owners, fleet):
            await fleet.send(4)
            await first.down()
            await fleet.send(4)
            await second.down()
            async with trio.open_nursery() as callers:
                callers.start_soon(fleet.send, 30)
                with trio.fail_after(5):
                    while owners["second"].outage() is None:  # noqa: ASYNC110
                        await trio.sleep(0.005)
                await second.up()
            assert first.served + second.served == 38
        fleet.assert_all_served()
        nursery.cancel_scope.cancel()
