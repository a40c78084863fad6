"""Sustained load under a provider's limit: no 429, and the limit is used, however the provider enforces it."""

import pytest
import trio
from msgspec.structs import replace

from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimLimit, SimProvider
from orchestrator.backends.simulated.config import Algorithm, Counted
from orchestrator.policy.limits import LimitSpec
from tests.owner.simulation import Load, run_load

LATENCY = SimLatency(arrival=(0.0, 0.3), headers=(0.0, 0.5), chunk_tokens=1000)
TOKENS = 30_000.0
REQUESTS = 10_000.0
WARM, UNTIL = 120.0, 420.0

EXACT = SimConfig(exact_tokens=True, latency=LATENCY, length=SimLength(tokens=80))
ESTIMATED = replace(EXACT, exact_tokens=False)


async def drive(config: SimConfig, counted: Counted, algorithm: Algorithm, loads: list[Load]) -> tuple[int, float]:
    """How many calls got a 429, and the part of the token limit that was used once the load was steady."""
    limits = (
        SimLimit(kind="total_tokens", amount=TOKENS, algorithm=algorithm, counted=counted),
        SimLimit(kind="requests", amount=REQUESTS, algorithm=algorithm),
    )
    provider = SimProvider(replace(config, limits=limits), clock=trio.current_time)
    ours = (LimitSpec("total_tokens", TOKENS, counted=counted), LimitSpec("requests", REQUESTS))
    await run_load(provider, loads, seconds=UNTIL, limits=ours)
    return provider.statistics().throttled, provider.limits[0].utilisation(WARM, UNTIL)


SMALL = [Load("acme", 30), Load("globex", 10, words=100)]


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
@pytest.mark.parametrize(("counted", "target"), [("at_admission", 0.98), ("reconciled", 0.98), ("as_produced", 0.95)])
async def test_exact_amounts_use_the_limit_without_a_429(
    counted: Counted, target: float, algorithm: Algorithm, autojump_clock: trio.testing.MockClock
) -> None:
    """With calls up to 1 % of the limit nothing is refused and the design's share of the limit is used."""
    throttled, used = await drive(EXACT, counted, algorithm, SMALL)
    assert throttled == 0
    assert target <= used <= 1.0


async def test_a_limit_enforced_over_ten_seconds_is_found_by_its_refusals(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody tells of the shorter window; still few calls are refused, and all that fits the window is used."""
    limit = SimLimit(kind="total_tokens", amount=TOKENS, window=10.0)
    provider = SimProvider(replace(EXACT, limits=(limit,)), clock=trio.current_time)
    # calls of up to 1 % of the ten seconds' 5,000 tokens
    loads = [Load("acme", 25, words=5, max_tokens=25), Load("globex", 10, words=10, max_tokens=25)]
    seen = []

    async def measure() -> None:
        await trio.sleep(180.0)
        seen.append((provider.statistics().arrived, provider.statistics().throttled))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure)
        await run_load(provider, loads, seconds=400.0, limits=[LimitSpec("total_tokens", TOKENS)])
    arrived, throttled = seen[0]
    refused = provider.statistics().throttled - throttled
    assert throttled > 0
    assert refused < 0.01 * (provider.statistics().arrived - arrived)
    assert provider.limits[0].utilisation(180.0, 400.0) >= 0.95


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
async def test_estimated_amounts_cause_no_429(algorithm: Algorithm, autojump_clock: trio.testing.MockClock) -> None:
    """Where the provider counts tokens in its own way, the learned margin still keeps every call within the limit."""
    throttled, used = await drive(ESTIMATED, "reconciled", algorithm, SMALL)
    assert throttled == 0
    assert used >= 0.95


async def test_a_large_call_is_not_starved_by_small_ones(autojump_clock: trio.testing.MockClock) -> None:
    """A call of a third of the limit gets its turn among many small ones of another tenant, again and again."""
    limits = (SimLimit(kind="total_tokens", amount=TOKENS),)
    provider = SimProvider(replace(EXACT, limits=limits), clock=trio.current_time)
    large = Load("large", 1, words=10, max_tokens=int(TOKENS / 3))
    small = Load("small", 40)
    await run_load(provider, [small, large], seconds=420, limits=[LimitSpec("total_tokens", TOKENS)])
    assert provider.statistics().throttled == 0
    assert large.waits.count >= 3
    assert large.waits.longest < 120
