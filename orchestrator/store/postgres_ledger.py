"""The ledger in PostgreSQL: the names that the store uses."""

from typing import Any


def make_ledger_tables(connection: Any) -> None:
    """Makes the tables."""


def prune_calls(connection: Any, before: float) -> int:
    """Removes calls that ended before a time."""
    return 0


class PostgresLedger:
    """The ledger."""

    def __init__(self, database: Any) -> None:
        self._database = database
