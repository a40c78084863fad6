"""Prometheus metrics of HTTP: connections, and answers by the surface that was asked and by status."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.instruments.families import counter, gauge

SURFACES: Final = (("/v1/", "gateway"), ("/api/", "api"), ("/page/", "page"))
"""What a path begins with, and what the surface behind it is called; everything else is `other`."""


class HttpMetrics(Collector):
    """Counts answers and connections. A path never becomes a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._connections = 0
        registry.register(self)

    def answered(self, path: str, status: int) -> None:
        """An answer's head went out."""
        self._answers[surface_of(path), status] += 1

    def connected(self, change: int) -> None:
        """A connection has come (1) or gone (-1)."""
        self._connections += change

    def collect(self) -> Iterable[Metric]:
        """What a scrape reads."""
        yield counter(
            "requests_total",
            "HTTP requests by surface (gateway, api, page, other) and the status they were answered with.",
            ("surface", "status"),
            (((surface, str(status)), count) for (surface, status), count in list(self._answers.items())),
        )
        yield gauge("open_connections", "Open HTTP connections.", (), [((), self._connections)])


def surface_of(path: str) -> str:
    """What a path's surface is called."""
    if path == "/":
        return "page"
    return next((name for prefix, name in SURFACES if path.startswith(prefix)), "other")
