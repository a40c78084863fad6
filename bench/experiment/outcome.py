"""What becomes of a cell, and what counts as a result."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from bench.experiment.spec import SUCCESS


class Outcome(Struct, frozen=True, kw_only=True):
    """How a cell ended.

    `done` has a success of 0 or 1. `timeout` counts as no success, and has no numbers. `broken` says nothing about the
    arm: what should have measured it failed, and it is run again when the experiment is resumed.
    """

    state: Literal["done", "timeout", "broken"]
    success: int = 0
    numbers: dict[str, float] = {}
    why: str = ""


def broken(why: str) -> Outcome:
    return Outcome(state="broken", why=why[-2_000:])


def read_result(result: object) -> Outcome:
    """The outcome from what a callable returns or a command prints: whether it succeeded, or a mapping with `success`
    and numbers. Anything else is broken, and says why."""
    if isinstance(result, bool):
        return Outcome(state="done", success=int(result))
    if not isinstance(result, Mapping):
        return broken(f"the result is a {type(result).__name__}: true, false, or a mapping with success is right")
    if result.get(SUCCESS) not in (0, 1):
        return broken(f"success is {result.get(SUCCESS)!r}: 0, 1, true or false is right")
    numbers: dict[str, float] = {}
    for name, value in result.items():
        if name != SUCCESS and value is not None:
            if not _is_number(value):
                return broken(f"{name!r} is {value!r}: a finite number is right, or null where there is none")
            numbers[str(name)] = float(value)
    return Outcome(state="done", success=int(result[SUCCESS]), numbers=numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
