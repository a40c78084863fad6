"""Amounts of everything that is counted, and limits on them."""

import math
from typing import Final

from msgspec import Struct

from agents.errors import InvalidLimits

MOST: Final = 2**53
"""The largest limit of anything: what every reader of JSON, and every float, still holds exactly."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a scope may use; None is no limit. `timeout` is in seconds from its first running.

    Raises `InvalidLimits`, naming the field: 0 tool calls and 0 dollars make sense, 0 rounds, tokens or seconds don't.
    """

    rounds: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    micro_dollars: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        for field, least in (("rounds", 1), ("tool_calls", 0), ("tokens", 1), ("micro_dollars", 0)):
            value = getattr(self, field)
            if value is None:
                continue
            if type(value) is not int or value < least:
                raise InvalidLimits(field, f"a whole number, {least} or more, not {value!r}")
            if value > MOST:
                raise InvalidLimits(field, f"at most {MOST}; leave it out for no limit")
        seconds: object = self.timeout
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidLimits("timeout", f"a number of seconds, not {seconds!r}")
        if not seconds > 0 or seconds == math.inf:
            raise InvalidLimits("timeout", f"more than 0 seconds and finite, not {seconds!r}")
        if seconds > MOST:
            raise InvalidLimits("timeout", f"at most {MOST} seconds; leave it out for no limit")


UNLIMITED: Final = Limits()


class Amounts(Struct, frozen=True):
    """So much of everything that is counted."""

    rounds: int = 0
    tool_calls: int = 0
    tokens: int = 0
    micro_dollars: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.rounds + other.rounds,
            self.tool_calls + other.tool_calls,
            self.tokens + other.tokens,
            self.micro_dollars + other.micro_dollars,
        )

    def __sub__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.rounds - other.rounds,
            self.tool_calls - other.tool_calls,
            self.tokens - other.tokens,
            self.micro_dollars - other.micro_dollars,
        )


NOTHING: Final = Amounts()
