"""Somebody else on the same key: their use is learned from what the provider says is left, and refusals stay few."""

import pytest
import trio
import trio.testing

from agents.messages import Delta, Message, ModelRequest, Usage
from orchestrator.backends.simulated.backend import (
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.config import Algorithm
from orchestrator.backends.simulated.errors import SimError
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.feedback import Reading
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Transition
from tests.owner.simulation import Load, drive

TOKENS = 30_000.0
WARM, UNTIL = 60.0, 360.0


class Nowhere:
    """A sink for answers that nobody reads."""

    async def headers(self, readings: tuple[Reading, ...]) -> None: ...
    def admitted(self, usage: Usage) -> None: ...
    async def alive(self) -> None: ...
    async def deltas(self, deltas: tuple[Delta, ...]) -> None: ...


class Stranger:
    """A client without a queue: sends so many tokens a second, in calls of `size`, whatever it is told."""

    def __init__(self, provider: SimProvider, rate: float, size: int = 200) -> None:
        self._provider = provider
        self._pause = size / rate
        self._size = size
        self.served = 0

    async def run(self) -> None:
        async with trio.open_nursery() as calls:
            for number in range(1_000_000):
                calls.start_soon(self._call, f"{number:08d}")
                await trio.sleep(self._pause)

    async def _call(self, prefix: str) -> None:
        half = self._size // 2
        asked = ModelRequest("sim", (Message("user", prefix.ljust(4 * half, "x")),), max_tokens=half)
        try:
            await self._provider.serve(asked, Nowhere())
        except SimError:
            return
        self.served += 1


class Refused:
    """A hook that counts tries, and those that were answered 429, once all is warm."""

    def __init__(self) -> None:
        self.tries = 0
        self.throttled = 0

    def __call__(self, transition: Transition) -> None:
        if transition.at < WARM:
            return
        self.tries += transition.kind == "started"
        self.throttled += transition.kind == "attempt_failed" and transition.outcome == "throttled"

    @property
    def share(self) -> float:
        return self.throttled / self.tries


async def share(algorithm: Algorithm, theirs: float) -> tuple[SimProvider, Owner, Stranger, Refused]:
    """We would use twice the limit if we could; the stranger takes `theirs` of it, or would."""
    limit = SimLimit(kind="total_tokens", amount=TOKENS, algorithm=algorithm)
    latency = SimLatency(arrival=(0.0, 0.3), headers=(0.0, 0.5), chunk_tokens=1000)
    config = SimConfig(exact_tokens=True, latency=latency, length=SimLength(tokens=80), limits=(limit,))
    provider = SimProvider(config, clock=trio.current_time)
    stranger, refused = Stranger(provider, theirs * TOKENS / 60), Refused()
    endpoint = Endpoint(
        "sim",
        SimulatedBackend("sim", provider),
        (LimitSpec("total_tokens", TOKENS),),
        concurrency=ConcurrencyConfig(fixed=256),
    )
    owner = Owner(OwnerConfig("sim"), [endpoint], hooks=[refused])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stranger.run)
        await drive(owner, [Load("acme", 30), Load("globex", 10, words=100)], seconds=UNTIL)
        nursery.cancel_scope.cancel()
    return provider, owner, stranger, refused


@pytest.mark.parametrize(
    ("algorithm", "few"), [("fixed_window", 0.02), ("sliding_window", 0.03), ("token_bucket", 0.06)]
)
async def test_a_stranger_on_the_key_costs_few_refusals(
    algorithm: Algorithm, few: float, autojump_clock: trio.testing.MockClock
) -> None:
    """Beside a client that sends half the limit's tokens, few calls of ours are refused, and all of it is used."""
    provider, owner, stranger, refused = await share(algorithm, 0.5)
    assert refused.share <= few
    assert provider.limits[0].utilisation(WARM, UNTIL) >= 0.95
    (limit,) = owner.policy.endpoints[0].limits.statistics(trio.current_time()).limits
    assert limit.foreign > 0.2 * TOKENS
    assert stranger.served * 200 > 0.25 * TOKENS * UNTIL / 60


async def test_without_a_stranger_nobody_is_imagined(autojump_clock: trio.testing.MockClock) -> None:
    """Where the key is ours alone nothing is taken for somebody else's, and nothing is refused."""
    provider, owner, _, refused = await share("sliding_window", 1e-9)
    assert refused.throttled == 0
    (limit,) = owner.policy.endpoints[0].limits.statistics(trio.current_time()).limits
    assert limit.foreign <= 0.03 * TOKENS
    assert provider.limits[0].utilisation(WARM, UNTIL) >= 0.98
