"""Whole numbers in JSON, which sets them no bound (RFC 8259, section 6): those beyond 64 bits are kept out.

Whoever computes with such a number, or stores it, has a bound: a float, a database's integer. Taken in, it would be
found out only there, by whoever looks at it next.
"""

import re
from typing import Any, Final

import msgspec

BITS: Final = 64
_MAY_BE: Final = re.compile(rb"[0-9]{19}")


def too_large(document: bytes) -> bool:
    """Whether there is a whole number in this JSON that 64 bits with a sign do not hold. False for what is no JSON."""
    if _MAY_BE.search(document) is None:
        return False
    try:
        left: list[Any] = [msgspec.json.decode(document)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif beyond(value):
            return True
    return False


def beyond(value: object) -> bool:
    """Whether it is a whole number that 64 bits with a sign do not hold."""
    return isinstance(value, int) and not -(2 ** (BITS - 1)) <= value < 2 ** (BITS - 1)
