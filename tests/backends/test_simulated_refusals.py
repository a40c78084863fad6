"""What the simulated provider refuses, in-process: calls beyond its limits, bad requests, nonsense settings."""

import math

import pytest
import trio
from trio.testing import MockClock

from agents.errors import InvalidLimits, Refused, Throttled
from agents.messages import ModelRequest, ToolSpec
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
)
from tests.backends.in_process import STEADY, send
from tests.backends.recorder import Recorder, ask

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


async def test_a_refusal_is_honest(autojump_clock: MockClock) -> None:
    """A 429 names the limit, the call passes after `retry_after` and not before, and the readings agree."""
    limits = (SimLimit(kind="requests", amount=2), SimLimit(kind="total_tokens", amount=100_000))
    provider = SimProvider(SimConfig(limits=limits, latency=STEADY))
    for _ in range(2):
        await send(provider)
    recorder = Recorder()
    with pytest.raises(Throttled) as caught:
        await send(provider, recorder=recorder)
    assert caught.value.exhausted == {"requests"}
    assert recorder.order == ["connected", "written", "headers"]
    by_kind = {reading.kind: reading for reading in recorder.readings}
    assert (by_kind["requests"].remaining, by_kind["requests"].limit) == (0, 2)
    assert caught.value.retry_after is not None
    await trio.sleep(caught.value.retry_after - 0.01)
    with pytest.raises(Throttled):
        await send(provider)
    await trio.sleep(0.01)
    await send(provider)
    assert provider.statistics().refused == {"requests": 2}
    assert provider.statistics().throttled == 2


async def test_a_token_limit_is_named_though_some_of_it_is_left(autojump_clock: MockClock) -> None:
    """A call that does not fit into what is left of a token limit is told which limit it was."""
    provider = SimProvider(SimConfig(limits=(SimLimit(kind="total_tokens", amount=1500),), latency=STEADY))
    await send(provider, ask(max_tokens=50))
    with pytest.raises(Throttled) as caught:
        await send(provider, ask(max_tokens=1480))
    assert caught.value.exhausted == {"total_tokens"}


async def test_too_many_in_flight_names_no_limit(autojump_clock: MockClock) -> None:
    """Above the bound on calls in flight the answer is 429 without an exhausted limit or a time."""
    provider = SimProvider(SimConfig(max_concurrency=1, latency=STEADY))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, provider)
        await trio.sleep(0.5)
        with pytest.raises(Throttled) as caught:
            await send(provider)
        assert (caught.value.exhausted, caught.value.retry_after) == (frozenset(), None)
    await send(provider)


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (ModelRequest("sim", ()), 400, "invalid_value"),
        (ask(max_tokens=0), 400, "invalid_value"),
        (ModelRequest("other", ask().messages), 404, "model_not_found"),
        (ask("word " * 3000), 400, "context_length_exceeded"),
        (ModelRequest("sim", ask().messages, tool_choice={"function": 7}, tools=(ADD,)), 400, "invalid_value"),
    ],
)
async def test_bad_requests_are_refused(
    autojump_clock: MockClock, request_: ModelRequest, status: int, code: str
) -> None:
    """A request that makes no sense is the request's fault and takes nothing from any limit."""
    limits = (SimLimit(kind="requests", amount=1),)
    provider = SimProvider(SimConfig(models=("sim",), length=SimLength(context=2048), limits=limits))
    with pytest.raises(Refused) as caught:
        await send(provider, request_)
    assert (caught.value.status, caught.value.code) == (status, code)
    assert not caught.value.endpoint_fault
    assert provider.statistics().refused == {"invalid": 1}
    await send(provider)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: SimConfig(tool_calls=math.nan), "tool_calls"),
        (lambda: SimConfig(max_concurrency=0), "max_concurrency"),
        (lambda: SimLatency(output_rate=0), "latency.output_rate"),
        (lambda: SimLatency(arrival=(2.0, 1.0)), "latency.arrival"),
        (lambda: SimLength(tokens=-1), "length.tokens"),
        (lambda: FaultRule(fault="stall", probability=1.5), "faults.probability"),
        (lambda: FaultRule(fault="refuse", start=5, end=5), "faults.start"),
        (lambda: FaultRule(fault="status", status=200), "faults.status"),
        (lambda: FaultRule(fault="heartbeats"), "faults.seconds"),
        (lambda: FaultRule(fault="stall", nth=(0,)), "faults.nth"),
        (
            lambda: SimProvider(SimConfig(limits=(SimLimit(kind="requests", amount=30, window=1.0),))),
            "limits.requests.window",
        ),
    ],
)
def test_nonsense_is_refused_with_the_field(make: object, field: str) -> None:
    """A configuration that makes no sense raises `InvalidLimits`, which names the field."""
    with pytest.raises(InvalidLimits) as caught:
        make()  # type: ignore[operator]
    assert caught.value.field == field
