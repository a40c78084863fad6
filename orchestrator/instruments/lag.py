"""How late the event loop wakes a task: what everything in this process has to wait on top of its own work.

A loop that is busy for a second answers nobody for a second, whichever part of it was busy. So a task sleeps, again and
again, and notes by how much it was woken too late.
"""

from collections.abc import Iterable
from typing import Final

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.instruments.books import Distribution
from orchestrator.instruments.families import histogram

EVERY: Final = 0.25
"""Seconds that it sleeps: often enough to meet a stall of a second, seldom enough to cost nothing."""

LAG_BOUNDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 3.0, 10.0)


class LoopLag(Collector):
    """Run `watch` as a task of the loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._late = Distribution(LAG_BOUNDS)
        registry.register(self)

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            due = trio.current_time() + EVERY
            await trio.sleep_until(due)
            self._late.observe(max(0.0, trio.current_time() - due))

    def collect(self) -> Iterable[Metric]:
        """What a scrape reads."""
        yield histogram("loop_lag_seconds", "How late the event loop woke a task that slept.", (), [((), self._late)])
