"""The engine alone, in a loop of its own: a policy that orders the engine's own queue, as the VTC paper's do."""

import math
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from bench.engine.model import A10G, Engine, EngineSpec, Job, Queue
from bench.traces.base import TraceCall


class Policy(Queue, Protocol):
    """A queue that requests come into."""

    def push(self, job: Job, now: float) -> bool:
        """The request arrives; False where it is turned away for good."""
        ...


class Request(Job, kw_only=True):
    """A request with its times in seconds; NaN for what did not happen."""

    at: float
    first: float = math.nan
    end: float = math.nan
    aborted: bool = False


class Served(Struct, frozen=True):
    """What became of every request, and until when the engine worked."""

    requests: Sequence[Request]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Input and output tokens of what was served, over the whole time."""
        done = sum(request.input + request.output for request in self.requests if not math.isnan(request.end))
        return done / self.seconds if self.seconds else 0.0


def simulate(calls: Sequence[TraceCall], policy: Policy, spec: EngineSpec = A10G) -> Served:
    """Serves all calls, which are in the order of arrival, until the last one is done."""
    requests = [Request(client=call.tenant, input=call.input, output=call.output, at=call.at) for call in calls]
    engine, now, arrived = Engine(policy, spec), 0.0, 0
    while True:
        while arrived < len(requests) and requests[arrived].at <= now:
            requests[arrived].aborted = not policy.push(requests[arrived], now)
            arrived += 1
        phase = engine.phase()
        if phase is None:
            if arrived == len(requests):
                return Served(requests, now)
            now = requests[arrived].at
            continue
        now += phase.seconds
        for job in engine.finish(phase):
            assert isinstance(job, Request)
            if job.made == 1:
                job.first = now
            if job.made == job.output:
                job.end = now
