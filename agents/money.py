"""Money in integers: what tokens cost, and the most that a call could cost.

Amounts are whole micro-dollars (1 dollar = 1,000,000). Prices are micro-dollars per million tokens, so that a list
price of $2.50 per million is the integer 2_500_000 and nothing is ever rounded until the end of one call, where a
fraction rounds up: a sum of costs is never below what the provider bills.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.messages import Usage

MILLION: Final = 1_000_000


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """What one model's tokens cost, in micro-dollars per million tokens of each type.

    `cached` (read from a cache) and `cache_write` default to the price of uncached input. Raises `InvalidLimits`
    for a negative or fractional price.
    """

    input: int
    output: int
    cached: int | None = None
    cache_write: int | None = None

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value is None and field in {"cached", "cache_write"}:
                continue
            if type(value) is not int or value < 0:
                raise InvalidLimits(field, f"a price is a whole number of micro-dollars, 0 or more, not {value!r}")

    def cost(self, usage: Usage) -> int | None:
        """The cost of reported usage; None while input or output is unknown."""
        if usage.input is None or usage.output is None:
            return None
        cached_price = self.input if self.cached is None else self.cached
        write_price = self.input if self.cache_write is None else self.cache_write
        total = (
            usage.input * self.input
            + (usage.cached or 0) * cached_price
            + (usage.cache_write or 0) * write_price
            + usage.output * self.output
        )
        return -(-total // MILLION)

    def bound(self, input_tokens: int, output_tokens: int) -> int:
        """The most that a call of this size can cost, whatever part of its input is cached."""
        return -(-(input_tokens * self._dearest_input + output_tokens * self.output) // MILLION)

    def affordable_output(self, input_tokens: int, micro_dollars: int, most: int) -> int:
        """How many output tokens, up to `most`, fit with that input into an amount; negative if not even the input."""
        left = micro_dollars * MILLION - input_tokens * self._dearest_input
        if left < 0:
            return -1
        return most if self.output == 0 else min(most, left // self.output)

    @property
    def _dearest_input(self) -> int:
        return max(self.input, self.cached or 0, self.cache_write or 0)


class Prices(Protocol):
    """What models cost, as far as somebody has said so."""

    def price(self, model: str) -> Price | None:
        """The price of a model's tokens; None where it is not known."""
        ...


class PriceList:
    """Prices by model name. An empty list knows no price: costs are then unknown, and money can't be limited."""

    __slots__ = ("_prices",)

    def __init__(self, prices: Mapping[str, Price] | None = None) -> None:
        self._prices = dict(prices or {})

    def price(self, model: str) -> Price | None:
        return self._prices.get(model)
