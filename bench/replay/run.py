"""One trace under one policy, in virtual time."""

import math
from collections.abc import Sequence
from typing import Final

import trio
from msgspec import Struct

from bench.play import Played, Recorder, play
from bench.policies import Policy, Served, served
from bench.recorded import RecordedBackend
from bench.replay.settings import Provider
from bench.traces.base import TraceCall
from bench.virtual import in_virtual_time

SAMPLE_SECONDS: Final = 10.0
"""How often the owner is asked how far apart its tenants are."""


class Replayed(Struct, frozen=True):
    """What came of it. `apart` are the owner's own samples of the largest difference of booked service per weight
    between siblings that were both eligible, with the bound for that pair; service units.
    """

    played: list[Played]
    backend: RecordedBackend
    ended: float
    apart: list[tuple[float, float]]


def replay(
    calls: Sequence[TraceCall],
    policy: Policy,
    provider: Provider,
    *,
    noise: float,
    seed: int,
    until: float = math.inf,
) -> Replayed:
    """Plays the calls to their last answer, or breaks off at `until` seconds.

    The same arguments give the same result in any process.
    """

    async def scenario() -> Replayed:
        backend, recorder, apart = provider.backend(seed), Recorder(), list[tuple[float, float]]()
        endpoint = provider.endpoint(backend)
        async with served(policy, provider.config(), [endpoint], hooks=[recorder], seed=seed) as to:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_sample, to, apart)
                with trio.move_on_at(until):
                    await play(calls, to.call, recorder, noise=noise, seed=seed)
                nursery.cancel_scope.cancel()
            return Replayed(recorder.played, backend, trio.current_time(), apart)

    return in_virtual_time(scenario, seed=seed)


async def _sample(to: Served, apart: list[tuple[float, float]]) -> None:
    owner = to.owner
    while owner is not None:
        await trio.sleep(SAMPLE_SECONDS)
        apart.append(owner.policy.fair.spread_and_bound())
