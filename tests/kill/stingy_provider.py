"""The simulated provider as a process, with so many requests a day: `stingy_provider.py REQUESTS`. It says its URL."""

import sys
from functools import partial

import trio

from orchestrator.backends.simulated.config import SimConfig, SimLatency, SimLength, SimLimit
from orchestrator.backends.simulated.server import run_simulator

DAY = 86_400.0

if __name__ == "__main__":
    config = SimConfig(
        limits=(SimLimit(kind="requests", amount=float(sys.argv[1]), per=DAY),),
        latency=SimLatency(first_token=0.05, output_rate=100.0),
        length=SimLength(tokens=2_000.0),
    )
    trio.run(run_simulator, config, "127.0.0.1", 0, partial(print, "serves", flush=True))
