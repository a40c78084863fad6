"""Calls that have no answer in tokens: embeddings, and the count of a request's tokens."""

import trio
from msgspec import Raw

from agents.messages import ModelRequest, WireRequest
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.simulated.backend import SimConfig, SimProvider, SimulatedBackend
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.limits import LimitSpec
from tests.owner.staged import request, running

TEXT = Raw(b'"a sentence of some length, to have something to count"')


def embeddings() -> ModelRequest:
    return ModelRequest("any", (), wire=WireRequest("embeddings", {"model": Raw(b'"any"'), "input": TEXT}, 55))


async def test_embeddings_hold_no_output_and_teach_none(autojump_clock: trio.testing.MockClock) -> None:
    """They need their input alone of a limit, so many fit at once; what answers take is still unknown afterwards."""
    provider = SimProvider(SimConfig(), clock=trio.current_time)
    limits = (LimitSpec("total_tokens", 1000, counted="at_admission"),)
    owner = Owner(OwnerConfig("test"), [Endpoint("sim", SimulatedBackend("sim", provider), limits=limits)])
    async with running(owner):
        began = trio.current_time()
        async with trio.open_nursery() as callers:
            for run in range(20):
                callers.start_soon(OwnerPort(owner.inbox, Flow("acme", "job", str(run))).call, embeddings())
        assert trio.current_time() - began < 30
        assert owner.policy.estimator.charged_output(("acme", "job"), 100) == 0
        assert owner.policy.estimator.output(("acme", "job"), 10_000) > 100


async def test_a_count_of_tokens_teaches_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """It is free, so neither the size of inputs nor that of answers is learned from it."""
    provider = SimProvider(SimConfig(), clock=trio.current_time)
    owner = Owner(OwnerConfig("test"), [Endpoint("sim", SimulatedBackend("sim", provider))])
    fields = {"model": Raw(b'"any"'), "messages": Raw(b'[{"role":"user","content":"hello"}]')}
    async with running(owner):
        port = OwnerPort(owner.inbox, Flow("acme"))
        before = owner.policy.estimator.ratio
        for _ in range(5):
            await port.call(ModelRequest("any", (), wire=WireRequest("count_tokens", fields, 5)))
        assert owner.policy.estimator.ratio == before
        await port.call(request())
