"""A soak in real time: a daemon, a provider with faults over sockets, agents and HTTP clients together."""

import os

from bench.soak.measure import measure_soak
from bench.soak.plan import Plan

SECONDS = 60.0 if os.environ.get("CI") else 15.0


def test_a_minute_of_mixed_load_loses_nothing_and_grows_nothing() -> None:
    """Memory, descriptors and latencies stay what they were, every run and call ends, and the daemon ends with 0."""
    result = measure_soak(Plan(seconds=SECONDS))
    assert not result.problems
    assert result.live_agents >= 150
    assert result.calls > 5 * SECONDS
    assert result.left > 0
