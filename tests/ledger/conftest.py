"""One ledger after the other."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.store.base import Store
from orchestrator.store.ledger_port import Ledger
from tests.store.stores import STORES


@pytest.fixture(params=list(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
async def ledger(store: Store) -> Ledger:
    """An empty ledger."""
    return store.ledger
