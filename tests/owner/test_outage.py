"""No endpoint serves anybody: who waits for it, and who is told at once."""

from typing import Any

import pytest
import trio

from agents.errors import ModelError, Unavailable
from agents.messages import ModelReply
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.owner.staged import StagedBackend, request, running

DOWN = DispatchConfig(retry=RetryConfig(attempts=50, base=0.5, cap=5.0))


class Switch:
    """A backend that fails every request until it is switched on."""

    def __init__(self) -> None:
        self.backend = StagedBackend("switch")
        self.backend.plan = lambda n, request: None if self.on else Unavailable("down", worked=False)
        self.on = False

    def owner(self, *, failures: int = 2, wait: float = 20.0, **told: Any) -> Owner:
        endpoint = Endpoint(
            "switch",
            self.backend,
            concurrency=ConcurrencyConfig(fixed=2),
            breaker=BreakerConfig(failures=failures, wait=wait, wait_at_most=wait),
        )
        return Owner(OwnerConfig("test", DOWN), [endpoint], **told)


def port(owner: Owner, run: int = 0, *, agent: bool = True) -> OwnerPort:
    return OwnerPort(owner.inbox, Flow("acme", "job", str(run)), agent=agent)


async def outcome(owner: Owner, run: int, into: list[ModelReply | ModelError], *, elsewhere: bool) -> None:
    try:
        into.append(await port(owner, run).call(request(), elsewhere=elsewhere))
    except ModelError as error:
        into.append(error)


async def test_calls_with_another_backend_are_given_back(autojump_clock: trio.testing.MockClock) -> None:
    """When the breaker opens, live, retrying and queued calls that can go elsewhere all end within seconds."""
    switch = Switch()
    ended: list[ModelReply | ModelError] = []
    async with running(switch.owner()) as owner:
        began = trio.current_time()
        async with trio.open_nursery() as callers:
            for run in range(20):
                callers.start_soon(lambda run=run: outcome(owner, run, ended, elsewhere=True))
        assert trio.current_time() - began < 10
        assert owner.outage() is not None
    assert len(ended) == 20
    assert all(isinstance(error, Unavailable) for error in ended)
    assert len(switch.backend.sent) <= 4


async def test_an_agents_call_without_another_backend_waits(autojump_clock: trio.testing.MockClock) -> None:
    """Calls that have nowhere else to go wait through the outage, and are answered when the backend is back."""
    switch = Switch()
    ended: list[ModelReply | ModelError] = []
    async with running(switch.owner()) as owner, trio.open_nursery() as callers:
        for run in range(10):
            callers.start_soon(lambda run=run: outcome(owner, run, ended, elsewhere=False))
        await trio.sleep(60)
        assert ended == []
        switch.on = True
    assert len(ended) == 10
    assert all(isinstance(reply, ModelReply) for reply in ended)


async def test_a_call_that_comes_during_an_outage(autojump_clock: trio.testing.MockClock) -> None:
    """An HTTP caller and a caller with another backend are told at once, with the time to the next probe."""
    switch = Switch()
    async with running(switch.owner()) as owner, trio.open_nursery() as callers:
        callers.start_soon(lambda: outcome(owner, 0, [], elsewhere=True))
        callers.start_soon(lambda: outcome(owner, 1, [], elsewhere=True))
        await trio.sleep(10)
        sent, began = len(switch.backend.sent), trio.current_time()
        with pytest.raises(Unavailable) as http:
            await port(owner, 2, agent=False).call(request())
        with pytest.raises(Unavailable):
            await port(owner, 3).call(request(), elsewhere=True)
        assert trio.current_time() == began
        assert len(switch.backend.sent) == sent
        assert http.value.retry_after is not None
        assert 1 <= http.value.retry_after <= 20


async def test_the_next_probe_ends_the_outage(autojump_clock: trio.testing.MockClock) -> None:
    """Once the breaker's time is up a call goes out as its probe, and with its success all are served again."""
    switch = Switch()
    async with running(switch.owner()) as owner:
        await outcome(owner, 0, [], elsewhere=True)
        await outcome(owner, 1, [], elsewhere=True)
        assert owner.outage() is not None
        switch.on = True
        await trio.sleep(25)
        assert owner.outage() is None
        reply = await port(owner, 2, agent=False).call(request())
        assert reply.finish_reason == "stop"
        assert owner.statistics().endpoints[0].breaker == "closed"


async def test_an_endpoint_that_goes_down_and_comes_back_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """Once when its breaker opens, with the failure that opened it, and once when a probe has closed it."""
    switch = Switch()
    told: list[tuple[str, str, str]] = []
    owner = switch.owner(on_endpoint=lambda *what: told.append((what[0], what[1], what[2] and str(what[2]))))
    async with running(owner):
        for run in range(3):
            await outcome(owner, run, [], elsewhere=True)
        switch.on = True
        await trio.sleep(25)
        await port(owner, 9).call(request())
        await port(owner, 9).call(request())
    assert told == [("test", "switch", "down"), ("test", "switch", None)]
