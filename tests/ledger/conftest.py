"""One ledger after the other."""

from collections.abc import AsyncIterator

import pytest

from orchestrator.store.base import Ledger
from orchestrator.store.memory_ledger import MemoryLedger
from orchestrator.store.sqlite_ledger import SqliteLedger
from tests.ledger.ledgers import DirectDatabase


@pytest.fixture(params=["memory", "sqlite"])
async def ledger(request: pytest.FixtureRequest) -> AsyncIterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger()
    else:
        yield SqliteLedger(DirectDatabase())
