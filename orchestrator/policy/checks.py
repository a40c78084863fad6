"""Checks on numbers that people configure. NaN passes every comparison as false, so it is asked for by name."""

import math

from agents.errors import InvalidLimits


def require(field: str, value: float, *, at_least: float = 0.0, at_most: float = math.inf, above: bool = False) -> None:
    """Raises `InvalidLimits` naming `field` unless `value` is a number in the range given.

    Both ends belong to the range, except the lower one where `above` is set. Infinity passes only where `at_most`
    is infinite.
    """
    if math.isnan(value):
        raise InvalidLimits(field, "must be a number, not NaN")
    if value < at_least or (above and value == at_least):
        raise InvalidLimits(field, f"must be {'above' if above else 'at least'} {at_least:g}, not {_shown(value)}")
    if value > at_most:
        raise InvalidLimits(field, f"must be at most {at_most:g}, not {_shown(value)}")


def _shown(value: float) -> str:
    try:
        return f"{value:g}"
    except OverflowError:
        return "that large" if value > 0 else "that small"
