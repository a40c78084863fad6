"""A dated price table: what each model's tokens cost from which day on, and who says so.

Providers publish prices in dollars per million tokens, and change them. Each entry keeps the published figure, its
day and its source, so that yesterday's bill can be checked with yesterday's price. The table is empty unless the user
fills it: a price that nobody vouched for would be worse than none, since money limits trust it.
"""

import datetime
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.money import MILLION, Price


class PriceEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's prices from the day `since` on, in dollars per million tokens, as published at `source`.

    `cached` and `cache_write` default to the price of input. Raises `InvalidLimits` for a price below 0, or one that
    is no whole number of micro-dollars per million tokens.
    """

    model: str
    since: datetime.date
    source: str
    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        self.price()

    def price(self) -> Price:
        """The same in whole micro-dollars per million tokens."""
        return Price(
            input=_micro("input", self.input),
            output=_micro("output", self.output),
            cached=None if self.cached is None else _micro("cached", self.cached),
            cache_write=None if self.cache_write is None else _micro("cache_write", self.cache_write),
        )


class PriceTable:
    """Prices as of one day: for each model the newest entry that is not after it."""

    __slots__ = ("_prices", "day")

    def __init__(self, entries: Iterable[PriceEntry], day: datetime.date) -> None:
        self.day = day
        newest: dict[str, PriceEntry] = {}
        for entry in entries:
            known = newest.get(entry.model)
            if entry.since <= day and (known is None or entry.since >= known.since):
                newest[entry.model] = entry
        self._prices = {model: entry.price() for model, entry in newest.items()}

    def price(self, model: str) -> Price | None:
        """The price on that day; None where the table has none."""
        return self._prices.get(model)

    def __len__(self) -> int:
        return len(self._prices)


def _micro(field: str, dollars: Decimal) -> int:
    try:
        micro = dollars * MILLION
        whole = int(micro)
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise InvalidLimits(field, f"a price in dollars, not {dollars}") from error
    if whole != micro or whole < 0:
        raise InvalidLimits(field, f"a price of 0 dollars or more with at most 6 decimals, not {dollars}")
    return whole
