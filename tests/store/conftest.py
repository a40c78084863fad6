"""Each store in turn."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from orchestrator.store.base import Store
from tests.store.stores import STORES


@pytest.fixture(params=list(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store, None]:
    """An empty store."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened
