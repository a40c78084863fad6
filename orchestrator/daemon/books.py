"""What is made before the store is open and writes into it: the hook of the ledger, and tools with long output."""

import time
from collections.abc import Callable, Sequence

from orchestrator.ledger import LedgerHook
from orchestrator.store.base import Store
from orchestrator.store.ledger_port import CallRow
from orchestrator.transitions import Transition


class Books:
    """`hook` is for owners. Rows and blobs go to the store that `keep_in` was given."""

    def __init__(self, cost: Callable[[Transition], int | None]) -> None:
        self._store: Store | None = None
        self.hook = LedgerHook(self, wall=time.time, cost=cost)

    def keep_in(self, store: Store) -> None:
        """From here on calls are kept there. No owner may have sent one before."""
        self._store = store

    def write(self, rows: Sequence[CallRow]) -> None:
        """What the hook says."""
        assert self._store is not None, "a call went out before the store was open"
        self._store.ledger.write(rows)

    async def put_blob(self, data: bytes) -> str:
        """Keeps what a tool wrote; see `Store.put_blob`."""
        assert self._store is not None, "a tool ran before the store was open"
        return await self._store.put_blob(data)
