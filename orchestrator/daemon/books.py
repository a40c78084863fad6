"""The ledger of a daemon's calls. Its hook is there before the store is open, as owners are made with their hooks."""

import time
from collections.abc import Callable, Sequence

from orchestrator.ledger import LedgerHook
from orchestrator.store.base import CallRow, Ledger
from orchestrator.transitions import Transition


class Books:
    """`hook` is for owners. Rows go to the ledger that `keep_in` was given."""

    def __init__(self, cost: Callable[[Transition], int | None]) -> None:
        self._ledger: Ledger | None = None
        self.hook = LedgerHook(self, wall=time.time, cost=cost)

    def keep_in(self, ledger: Ledger) -> None:
        """From here on calls are kept there. No owner may have sent one before."""
        self._ledger = ledger

    def write(self, rows: Sequence[CallRow]) -> None:
        """What the hook says."""
        assert self._ledger is not None, "a call went out before the store was open"
        self._ledger.write(rows)
