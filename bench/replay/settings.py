"""What a replay is told: the provider and its limits, and how the trace is bent before it is played."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agents.port import Priority
from bench.recorded import RecordedBackend, Speed
from bench.traces.base import TraceCall
from orchestrator.backends.simulated.config import Algorithm, Counted, SimLimit
from orchestrator.owner import Endpoint, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.feedback import LimitKind
from orchestrator.policy.limits import InFlightSpec, LimitSpec

HEADERS: Final = (0.0, 0.2)
"""Seconds from a request's writing to its counting, at random."""


class Provider(Struct, frozen=True, kw_only=True):
    """The simulated provider, and what the owner is told of it: the same limits.

    Amounts are per minute; None is no limit. `concurrency` is in calls at once. `counted`, `algorithm` and `window` are
    as in `SimLimit`; what counts output only as it is produced has no bearing on requests and input.
    An owner knows of the shorter windows only where it is told, as of those of a real provider.
    """

    requests: float | None = None
    total_tokens: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    counted: Counted = "reconciled"
    algorithm: Algorithm = "sliding_window"
    window: float | None = None
    window_told: bool = False
    concurrency: int | None = None
    speed: Speed = Speed()
    headers: tuple[float, float] = HEADERS

    def amounts(self) -> dict[LimitKind, float]:
        """The limits there are."""
        named: tuple[tuple[LimitKind, float | None], ...] = (
            ("requests", self.requests),
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("total_tokens", self.total_tokens),
        )
        return {kind: amount for kind, amount in named if amount is not None}

    def backend(self, seed: int) -> RecordedBackend:
        """A fresh provider."""
        limits = [
            SimLimit(kind=kind, amount=amount, algorithm=self.algorithm, counted=self.counted, window=self.window)
            for kind, amount in self.amounts().items()
        ]
        return RecordedBackend(limits, concurrency=self.concurrency, speed=self.speed, headers=self.headers, seed=seed)

    def endpoint(self, backend: RecordedBackend) -> Endpoint:
        """The provider as an owner knows it. Concurrency is bounded only where the provider bounds it."""
        return Endpoint(
            "provider",
            backend,
            limits=tuple(spec for kind, amount in self.amounts().items() for spec in self._specs(kind, amount)),
            in_flight=None if self.concurrency is None else InFlightSpec(calls=self.concurrency),
            concurrency=ConcurrencyConfig(fixed=self.concurrency or UNBOUNDED),
        )

    def _specs(self, kind: LimitKind, amount: float) -> list[LimitSpec]:
        specs = [LimitSpec(kind, amount, counted=self.counted)]
        if self.window is not None and self.window_told:
            specs.append(LimitSpec(kind, amount * self.window / 60.0, per=self.window, counted=self.counted))
        return specs

    def config(self) -> OwnerConfig:
        return OwnerConfig("replay")


UNBOUNDED: Final = 100_000


class Shape(Struct, frozen=True, kw_only=True):
    """How a trace is bent before it is played.

    `speed` is how many times faster calls come, `span` the seconds of it that are played. `tenants` parts the calls
    among so many tenants at random, the k-th with a share in proportion to 1/k. `interactive` and `batch` are the
    shares of calls with those priorities, at random. `deadline` is what each call has, in seconds from its arrival.
    """

    speed: float = 1.0
    span: float | None = None
    tenants: int | None = None
    interactive: float = 0.0
    batch: float = 0.0
    deadline: float | None = None
    seed: int = 0

    def bend(self, calls: Sequence[TraceCall]) -> list[TraceCall]:
        """The calls to be played, in their order."""
        until = math.inf if self.span is None else self.span
        owners, urgencies = random.Random(f"{self.seed}/tenants"), random.Random(f"{self.seed}/priorities")
        cumulative = list(accumulate(1.0 / k for k in range(1, (self.tenants or 1) + 1)))
        names = [f"tenant-{k}" for k in range(1, len(cumulative) + 1)]
        bent = []
        for call in calls:
            at = call.at / self.speed
            if at > until:
                break
            tenant, priority, deadline = call.tenant, call.priority, call.deadline
            if self.tenants is not None:
                (tenant,) = owners.choices(names, cum_weights=cumulative)
            if self.interactive or self.batch:
                priority = self._priority(urgencies.random())
            if self.deadline is not None:
                deadline = self.deadline
            bent.append(replace(call, at=at, tenant=tenant, priority=priority, deadline=deadline))
        return bent

    def _priority(self, drawn: float) -> Priority:
        if drawn < self.interactive:
            return Priority.INTERACTIVE
        return Priority.BATCH if drawn >= 1.0 - self.batch else Priority.STANDARD
