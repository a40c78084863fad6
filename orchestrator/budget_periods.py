"""Days, months and for ever, in UTC: which one a time is in, and what was spent in it."""

import datetime
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from orchestrator.store.ledger_port import SpentRow

Per = Literal["day", "month", "ever"]


class Spent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant has used in a period; `unknown` is what was held by calls that never said what they used."""

    tenant: str
    period: str
    tokens: int = 0
    micro_dollars: int = 0
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0


def period_of(per: Per, wall: float) -> tuple[str, float | None]:
    """The name of the period that a time in seconds since the epoch is in, and when the next one begins. In UTC."""
    if per == "ever":
        return "ever", None
    day = datetime.datetime.fromtimestamp(wall, datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return f"{day:%Y-%m-%d}", (day + datetime.timedelta(days=1)).timestamp()
    first = day.replace(day=1)
    return f"{first:%Y-%m}", (first + datetime.timedelta(days=32)).replace(day=1).timestamp()


def spent_in(period: str, tenant: str, rows: Iterable[SpentRow]) -> Spent:
    """What a tenant's days come to in a period, by its name."""
    within = [row for row in rows if period == "ever" or row.day.startswith(period)]
    return Spent(
        tenant=tenant,
        period=period,
        tokens=sum(row.tokens for row in within),
        micro_dollars=sum(row.micro_dollars for row in within),
        unknown_tokens=sum(row.unknown_tokens for row in within),
        unknown_micro_dollars=sum(row.unknown_micro_dollars for row in within),
    )
