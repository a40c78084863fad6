"""Checks of Anthropic's API, over a socket: the simulated provider in its dialect."""

import math

import trio

from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.backends.secret import Secret
from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimLimit, SimProvider
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.check.models import list_models
from orchestrator.check.run import Check, Subject
from tests.check.asked import states

CONFIG = SimConfig(
    latency=SimLatency(first_token=0.0, input_rate=math.inf, output_rate=5000.0, spread=0.0),
    length=SimLength(tokens=200, spread=0.0),
    models=("m-1",),
    prefix_cache=64,
    api_keys=("k-1",),
    limits=(
        SimLimit(kind="requests", amount=60),
        SimLimit(kind="input_tokens", amount=30_000),
        SimLimit(kind="output_tokens", amount=8_000, counted="as_produced"),
    ),
)


def backend_at(url: str) -> AnthropicBackend:
    return AnthropicBackend(AnthropicConfig(name="claude", base_url=url, api_key=Secret("k-1")))


async def test_a_healthy_api_is_usable() -> None:
    """Every question is answered; a seed, for which there are no words, costs no request; limits become lines."""
    provider = SimProvider(CONFIG)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, provider)
        subject = Subject(backend="claude", model="m-1", endpoints=(backend_at(url),))
        report = await Check(subject, timeout=10.0, on_step=lambda step: None).run()
        nursery.cancel_scope.cancel()
    assert (report.verdict, report.message) == ("usable", "")
    found = states(report)
    assert found["same again"] == "no"
    good = {name for name, state in found.items() if state == "ok"}
    assert {"streaming", "usage", "tool call", "tool result", "JSON schema", "errors"} <= good
    assert [limit.line for limit in report.limits] == ["rpm = 60", "input_tpm = 30000", "output_tpm = 8000"]
    assert report.requests == 9
    assert report.settings == ()


async def test_a_list_of_models() -> None:
    """The names are asked for with the key, under `/v1` whether the address says it or not."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(CONFIG))
        for base in (url, url.removesuffix("/v1")):
            assert await list_models(backend_at(base), 5.0) == ["m-1"]
        nursery.cancel_scope.cancel()
