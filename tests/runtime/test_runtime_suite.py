"""Every runtime against the rules for all of them."""

import pytest
import trio
import trio.testing

from agents.runtime_suite import RULES, Factory, check_runtime
from tests.runtime.runtimes import local, service_in_memory, service_on_disk

RUNTIMES: list[Factory] = [local, service_in_memory, service_on_disk]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("factory", RUNTIMES, ids=lambda factory: factory.__name__)
async def test_the_runtime_keeps_the_rule(factory: Factory, rule: str, autojump_clock: trio.testing.MockClock) -> None:
    """Each runtime there is breaks no rule."""
    assert await check_runtime(factory, only=[rule]) == []
