"""Many rows in few statements.

Every row that SQLite takes by itself hands the interpreter's lock over, and a busy event loop gives it back after 5 ms;
so rows go into statements of many rows each. Their numbers of rows have two significant bits (1, 2, 3, 4, 6, 8, 12,
...), so that few are ever compiled, and few are needed.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

VALUES: Final = 32_766
"""How many values one statement may have, by SQLite's default."""

Row = tuple[Any, ...]


def insert(connection: sqlite3.Connection, statement: tuple[str, str], rows: Sequence[Row]) -> None:
    """Runs `statement`, which is what comes before and after its rows. Rows are inserted in order."""
    before, after = statement
    if not rows:
        return
    width = len(rows[0])
    for part in _parts(rows, VALUES // width):
        text = before + _places(width, len(part)) + after
        connection.execute(text, list(chain.from_iterable(part)))


@lru_cache(maxsize=128)
def _places(width: int, rows: int) -> str:
    line = "(" + ", ".join("?" * width) + ")"
    return ", ".join([line] * rows)


def _parts(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """The rows in parts, the greatest first."""
    at = 0
    while at < len(rows):
        size = _whole(min(len(rows) - at, most))
        yield rows[at : at + size]
        at += size


def _whole(number: int) -> int:
    """The number with its two highest bits only."""
    lower = max(0, number.bit_length() - 2)
    return number >> lower << lower
