"""A fault means the same in Anthropic's dialect: the simulated backend beside the Anthropic adapter over a socket."""

import math
from typing import Any

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Throttled
from agents.messages import ModelReply
from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.backends.base import Backend
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.server import serve_simulated
from tests.backends.recorder import Recorder, ask
from tests.conformance.test_faults import FAULTS, LATENCY, LENGTH, outcome_of

WORDLESS = {"status_401_invalid_api_key", "status_429_insufficient_quota"}
"""Faults by codes that the dialect does not have: there a 401 is a 401, and a 429 a 429."""


async def both(config: SimConfig, calls: int = 1) -> list[tuple[Any, Recorder]]:
    """The outcome of the last of `calls` equal calls, in-process and over a socket."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(config))
        backends: list[Backend] = [
            SimulatedBackend("in-process", SimProvider(config)),
            AnthropicBackend(AnthropicConfig(name="socket", base_url=url)),
        ]
        found = [await outcome_of(backend, calls) for backend in backends]
        nursery.cancel_scope.cancel()
    return found


def facts(outcome: ModelReply | ModelError) -> Any:
    """What policy decides from; codes are each dialect's own words."""
    if isinstance(outcome, ModelReply):
        return outcome.message.content, outcome.finish_reason, outcome.usage.total
    fields = ("status", "partial", "endpoint_fault", "worked", "exhausted", "retry_after")
    return type(outcome), {name: getattr(outcome, name) for name in fields if hasattr(outcome, name)}


@pytest.mark.parametrize("name", sorted(FAULTS.keys() - WORDLESS - {"usage_never"}))
async def test_a_fault_means_the_same_on_both_ways(name: str) -> None:
    """Each fault leads to the same error, fields and partial text, or to the same answer."""
    config = SimConfig(latency=LATENCY, length=LENGTH, faults=(FAULTS[name],))
    (inside, _), (outside, _) = await both(config)
    assert facts(outside) == facts(inside)


@pytest.mark.parametrize(
    "limit",
    [
        SimLimit(kind="requests", amount=1),
        SimLimit(kind="input_tokens", amount=25),
        SimLimit(kind="output_tokens", amount=30, counted="as_produced"),
        SimLimit(kind="total_tokens", amount=50, counted="as_produced"),
    ],
)
async def test_a_429_names_the_same_limit_on_both_ways(limit: SimLimit) -> None:
    """An exhausted limit of any kind is named alike, with the same time to wait."""
    (inside, _), (outside, _) = await both(SimConfig(latency=LATENCY, length=LENGTH, limits=(limit,)), 2)
    assert isinstance(inside, Throttled)
    assert isinstance(outside, Throttled)
    assert outside.retry_after == pytest.approx(60, abs=1)
    assert inside.exhausted == outside.exhausted == {limit.kind}


async def test_too_much_concurrency_names_no_limit() -> None:
    """A 429 for concurrency says nothing of requests or tokens."""
    config = SimConfig(latency=SimLatency(first_token=60.0), length=LENGTH, max_concurrency=1)
    provider = SimProvider(config)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        nursery.start_soon(SimulatedBackend("first", provider).connect().send, ask(), Recorder())
        await trio.testing.wait_all_tasks_blocked()
        outcome, _ = await outcome_of(AnthropicBackend(AnthropicConfig(name="socket", base_url=url)), 1)
        nursery.cancel_scope.cancel()
    assert isinstance(outcome, Throttled)
    assert outcome.exhausted == frozenset()


async def test_a_refused_connection_did_no_work() -> None:
    """In an outage nothing was sent, and the error says so."""
    rule = FaultRule(fault="refuse", start=0.0, end=math.inf)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(SimConfig(faults=(rule,)), clock=lambda: 1.0))
        outcome, recorder = await outcome_of(AnthropicBackend(AnthropicConfig(name="socket", base_url=url)), 1)
        nursery.cancel_scope.cancel()
    assert facts(outcome)[1]["worked"] is False
    assert recorder.order == []
