"""Fixtures of the conformance suite."""

from collections.abc import AsyncIterator, Iterator

import pytest

from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import LocalConfig
from tests import local_model
from tests.conformance import subjects


@pytest.fixture(scope="session")
def local_server() -> Iterator[LocalBackend]:
    with local_model.local_server(LocalConfig()) as backend:
        yield backend


@pytest.fixture(params=["simulated", "openai", "anthropic", "local"])
def which(request: pytest.FixtureRequest) -> str | LocalBackend:
    """The name of a backend, or the running local one."""
    name: str = request.param
    return request.getfixturevalue("local_server") if name == "local" else name


@pytest.fixture
async def subject(which: str | LocalBackend) -> AsyncIterator[subjects.Subject]:
    if isinstance(which, LocalBackend):
        yield subjects.local(which)
        return
    makers = {"simulated": subjects.simulated, "openai": subjects.openai, "anthropic": subjects.anthropic}
    async with makers[which]() as found:
        yield found
