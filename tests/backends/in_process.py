"""The simulated provider in-process, at a steady speed that is easy to reckon with."""

import math

from agents.messages import ModelReply, ModelRequest
from orchestrator.backends.simulated.backend import SimLatency, SimProvider, SimulatedBackend
from tests.backends.recorder import Recorder, ask

STEADY = SimLatency(first_token=1.0, input_rate=math.inf, output_rate=10.0, spread=0.0, chunk_tokens=5)


async def send(
    provider: SimProvider, request: ModelRequest | None = None, recorder: Recorder | None = None
) -> ModelReply:
    """One call over a connection of its own."""
    return await SimulatedBackend("sim", provider).connect().send(request or ask(), recorder or Recorder())
