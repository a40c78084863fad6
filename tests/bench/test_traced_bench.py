"""What traces cost: a small run of the benchmark."""

import pytest

from bench.traced import OFF, measure_traced


def test_each_way_to_trace_is_held_against_none() -> None:
    """All four ways make their calls, the first of them the measure of the others."""
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    results = measure_traced(calls=200, repeats=1)
    assert [result.traces for result in results] == [OFF, "sampled out", "made", "sent"]
    assert results[0].ratio == 1.0
    assert all(result.microseconds > 0 for result in results)
