"""Small makers of metric families, so that names, help and label order stand in one line each."""

import math
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from orchestrator.instruments.books import Distribution

Labels = Sequence[str]


def counter(name: str, help: str, labels: Labels, rows: Iterable[tuple[Labels, float]]) -> CounterMetricFamily:
    """A counter; `name` ends in `_total`, as it is exposed."""
    family = CounterMetricFamily(f"headrace_{name}", help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def gauge(name: str, help: str, labels: Labels, rows: Iterable[tuple[Labels, float]]) -> GaugeMetricFamily:
    """A gauge: one value for each row of label values."""
    family = GaugeMetricFamily(f"headrace_{name}", help, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def histogram(
    name: str, help: str, labels: Labels, rows: Iterable[tuple[Labels, Distribution]]
) -> HistogramMetricFamily:
    """A histogram; what it counts is in the base unit that `name` ends in."""
    family = HistogramMetricFamily(f"headrace_{name}", help, labels=labels)
    for values, distribution in rows:
        buckets = [(_bound(bound), float(count)) for bound, count in distribution.buckets()]
        family.add_metric(values, buckets, distribution.total)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else str(bound)
