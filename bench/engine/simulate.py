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
    """When each client got how much service, and until when the engine worked. `tokens` counts input and output."""

    requests: Sequence[Request]
    service: dict[str, list[tuple[float, float]]]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Throughput over the whole time."""
        done = sum(request.input + request.output for request in self.requests if not math.isnan(request.end))
        return done / self.seconds if self.seconds else 0.0


def simulate(calls: Sequence[TraceCall], policy: Policy, spec: EngineSpec = A10G) -> Served:
    """Serves all calls, which are in the order of arrival, until the last one is done."""
    requests = [Request(client=call.tenant, input=call.input, output=call.output, at=call.at) for call in calls]
    engine, service, now, arrived = Engine(policy, spec), ServiceLog(), 0.0, 0
    while True:
        while arrived < len(requests) and requests[arrived].at <= now:
            requests[arrived].aborted = not policy.push(requests[arrived], now)
            arrived += 1
        phase = engine.phase()
        if phase is None:
            if arrived == len(requests):
                return Served(requests, service.by_client, now)
            now = requests[arrived].at
            continue
        now += phase.seconds
        for job in engine.finish(phase):
            assert isinstance(job, Request)
            service.add(job, now)
            if job.made == 1:
                job.first = now
            if job.made == job.output:
                job.end = now


class ServiceLog:
    """Service as the paper counts it: a request's input with its first token, and 2 for each output token."""

    def __init__(self) -> None:
        self.by_client: dict[str, list[tuple[float, float]]] = {}

    def add(self, job: Job, now: float) -> None:
        """It has just got one token."""
        amount = 2.0 + (job.input if job.made == 1 else 0)
        self.by_client.setdefault(job.client, []).append((now, amount))
