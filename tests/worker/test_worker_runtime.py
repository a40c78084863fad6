"""A run service whose runs are driven by workers against the rules for all runtimes."""

import pytest
import trio.testing

from agents.runtime_suite import RULES, Factory, check_runtime
from tests.worker.remote_runtimes import workers_that_die, workers_that_stay


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("factory", [workers_that_stay, workers_that_die], ids=lambda factory: factory.__name__)
async def test_a_service_with_workers_keeps_the_rule(
    factory: Factory, rule: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Who drives a run is nothing that anybody sees from outside."""
    assert await check_runtime(factory, only=[rule]) == []
