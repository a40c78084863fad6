"""The provider of a soak, in a process of its own: `python -m bench.soak.provider CALLS_A_MINUTE`.

One call in a hundred meets a fault: an error, a refusal without a hint, a stream that breaks off, a silence.
"""

import sys
from functools import partial

import trio

from orchestrator.backends.simulated.config import FaultRule, SimConfig, SimLatency, SimLength, SimLimit
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.server import serve_simulated

FAULTS = (
    FaultRule(fault="status", probability=0.003, status=500),
    FaultRule(fault="status", probability=0.002, status=529),
    FaultRule(fault="status", probability=0.002, status=429),
    FaultRule(fault="truncate", probability=0.002, after_tokens=3, reset=True),
    FaultRule(fault="silence", probability=0.001, seconds=4.0),
)


def provider(rpm: float) -> SimProvider:
    """Answers of some 20 tokens within some 0.3 s, and a limit that it enforces."""
    return SimProvider(
        SimConfig(
            latency=SimLatency(first_token=0.1, output_rate=100.0, chunk_tokens=8),
            length=SimLength(tokens=20.0, spread=0.3),
            limits=(SimLimit(kind="requests", amount=rpm),),
            faults=FAULTS,
            tool_rounds=1,
        )
    )


async def serve(rpm: float) -> None:
    """Serves until cancelled, and prints its address once it listens."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_simulated, provider(rpm), port=0))
        print(f"serves {url} .", flush=True)


if __name__ == "__main__":
    trio.run(serve, float(sys.argv[1]))
