"""Times inside JSON that SQLite writes.

It writes 15 digits of a float, and a time of today has 17. So times are written as whole numbers of 2**-22 s, which is
the distance between neighbouring floats in the years 2004 to 2038, and later ones are further apart.
"""

from typing import Final

_SCALE: Final = 4_194_304


def ticks(expression: str) -> str:
    """The SQL for a time inside JSON."""
    return f"CAST({expression} * {_SCALE}.0 AS INTEGER)"


def seconds(ticks: int) -> float:
    """The time, in seconds since the epoch."""
    return ticks / _SCALE
