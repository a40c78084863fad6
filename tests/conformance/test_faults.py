"""A fault means the same in-process and on the wire: the simulated backend beside the OpenAI adapter over a socket."""

import math
from typing import Any

import pytest
import trio

from agents.errors import ModelError, Throttled
from agents.messages import ModelReply
from orchestrator.backends.base import Backend
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.server import serve_simulated
from tests.backends.recorder import Recorder, ask

LATENCY = SimLatency(first_token=0.0, input_rate=math.inf, output_rate=2000.0, spread=0.0)
LENGTH = SimLength(tokens=30, spread=0.0)

FAULTS: dict[str, FaultRule] = {
    **{
        f"status_{status}_{code}": FaultRule(fault="status", status=status, code=code)
        for status, code in [
            (400, None),
            (401, "invalid_api_key"),
            (429, None),
            (429, "insufficient_quota"),
            (500, None),
            (503, None),
            (529, None),
        ]
    },
    "closed_without_an_answer": FaultRule(fault="silence", seconds=0.01),
    "cut_before_the_first_token": FaultRule(fault="truncate"),
    "cut_midway": FaultRule(fault="truncate", after_tokens=10),
    "cut_at_the_end": FaultRule(fault="truncate", after_tokens=30),
    "error_in_the_stream": FaultRule(fault="error_event", status=500, after_tokens=10),
    "overload_in_the_stream": FaultRule(fault="error_event", status=529, after_tokens=10),
    "stalled": FaultRule(fault="stall", after_tokens=10, seconds=0.02),
    "usage_twice": FaultRule(fault="duplicate_usage"),
    "usage_never": FaultRule(fault="no_usage"),
    "heartbeats": FaultRule(fault="heartbeats", seconds=0.005),
}


async def both(config: SimConfig, calls: int = 1) -> list[tuple[Any, Recorder]]:
    """The outcome of the last of `calls` equal calls, in-process and over a socket."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(config))
        backends: list[Backend] = [
            SimulatedBackend("in-process", SimProvider(config)),
            OpenAIBackend(OpenAIConfig(name="socket", base_url=url)),
        ]
        found = [await outcome_of(backend, calls) for backend in backends]
        nursery.cancel_scope.cancel()
    return found


async def outcome_of(backend: Backend, calls: int) -> tuple[ModelReply | ModelError, Recorder]:
    connection = backend.connect()
    outcome: ModelReply | ModelError | None = None
    recorder = Recorder()
    for _ in range(calls):
        recorder = Recorder()
        try:
            with trio.fail_after(10):
                outcome = await connection.send(ask(max_tokens=100), recorder)
        except ModelError as error:
            outcome = error
    await connection.aclose()
    assert outcome is not None
    return outcome, recorder


def facts(outcome: ModelReply | ModelError) -> Any:
    """What policy decides from: everything but the prose."""
    if isinstance(outcome, ModelReply):
        return outcome
    fields = ("status", "code", "usage", "partial", "endpoint_fault", "worked", "exhausted", "retry_after")
    return type(outcome), {name: getattr(outcome, name) for name in fields if hasattr(outcome, name)}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_means_the_same_on_both_ways(name: str) -> None:
    """Each fault leads to the same error, fields and partial text, or to the same reply, in-process and on the wire."""
    config = SimConfig(latency=LATENCY, length=LENGTH, faults=(FAULTS[name],))
    (inside, recorded), (outside, over_wire) = await both(config)
    assert facts(outside) == facts(inside)
    if isinstance(outside, ModelReply):
        assert over_wire.text == recorded.text
        assert over_wire.usages == recorded.usages[:1]
    else:  # text that one read brought together with the end of the stream is in `partial` only
        assert recorded.text.startswith(over_wire.text)


@pytest.mark.parametrize("kind", ["requests", "input_tokens", "output_tokens", "total_tokens"])
async def test_a_429_names_the_same_limit_on_both_ways(kind: str) -> None:
    """An exhausted limit of any kind is named alike, with the same time to wait and the same readings."""
    amount = 1 if kind == "requests" else 25 if kind == "input_tokens" else 130
    limit = SimLimit(kind=kind, amount=amount, counted="at_admission")  # type: ignore[arg-type]
    (inside, recorded), (outside, over_wire) = await both(SimConfig(latency=LATENCY, length=LENGTH, limits=(limit,)), 2)
    assert isinstance(inside, Throttled)
    assert isinstance(outside, Throttled)
    assert inside.exhausted == outside.exhausted == {kind}
    assert inside.retry_after == pytest.approx(60, abs=1)
    assert outside.retry_after == pytest.approx(60, abs=1)
    (one,), (other,) = recorded.readings, over_wire.readings
    assert (one.kind, one.limit, one.remaining) == (other.kind, other.limit, other.remaining)
    assert other.reset == pytest.approx(one.reset, abs=2)


async def test_too_much_concurrency_means_the_same_on_both_ways() -> None:
    """A 429 for concurrency names no limit on either way."""
    config = SimConfig(latency=SimLatency(first_token=60.0), length=LENGTH, max_concurrency=1)
    provider = SimProvider(config)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        nursery.start_soon(SimulatedBackend("first", provider).connect().send, ask(), Recorder())
        await trio.testing.wait_all_tasks_blocked()
        inside, _ = await outcome_of(SimulatedBackend("in-process", provider), 1)
        outside, _ = await outcome_of(OpenAIBackend(OpenAIConfig(name="socket", base_url=url)), 1)
        nursery.cancel_scope.cancel()
    assert isinstance(inside, Throttled)
    assert inside.exhausted == frozenset()
    assert facts(outside) == facts(inside)


async def test_a_refused_connection_did_no_work() -> None:
    """In an outage nothing was sent, and both ways say so."""
    rule = FaultRule(fault="refuse", start=0.0, end=math.inf)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(SimConfig(faults=(rule,)), clock=lambda: 1.0))
        outside, recorder = await outcome_of(OpenAIBackend(OpenAIConfig(name="socket", base_url=url)), 1)
        nursery.cancel_scope.cancel()
    inside, _ = await outcome_of(SimulatedBackend("in-process", SimProvider(SimConfig(faults=(rule,)))), 1)
    assert facts(outside) == facts(inside)
    assert facts(inside)[1]["worked"] is False
    assert recorder.order == []


async def test_silence_is_broken_only_by_the_caller() -> None:
    """Against a provider that accepts and says nothing both ways wait until they are cancelled, then work again."""
    config = SimConfig(latency=LATENCY, length=LENGTH, faults=(FaultRule(fault="silence", nth=(1,)),))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(config))
        for backend in (
            SimulatedBackend("in-process", SimProvider(config)),
            OpenAIBackend(OpenAIConfig(name="socket", base_url=url)),
        ):
            connection, recorder = backend.connect(), Recorder()
            with trio.move_on_after(0.5) as scope:
                await connection.send(ask(), recorder)
            assert scope.cancelled_caught
            assert recorder.order == ["connected", "written"]
            assert isinstance(await connection.send(ask(), Recorder()), ModelReply)
            await connection.aclose()
        nursery.cancel_scope.cancel()
