"""What each tenant's calls were charged when they were sent, and what they cost in the end. In weighted tokens.

Sums only, by tenant. A call holds its tenant's account from when it is queued, so that nothing is looked up afterwards.

Known limit: `NAMES` tenants have accounts of their own, those that came first; all later ones share one, whose name is
empty. So a flood of invented names stays small, and a sum never falls.
"""

from collections.abc import Mapping
from typing import Final

NAMES: Final = 4096

OTHERS: Final = ""
"""Stands for all tenants beyond `NAMES`; no tenant is called so."""

MEMORY: Final = 16
"""A mean cost is that of about so many calls."""


class Account:
    """One tenant's: what was `sent` by prediction, what `service` was booked in the end, what a call costs lately."""

    __slots__ = ("cost", "sent", "service")

    def __init__(self) -> None:
        self.sent = 0.0
        self.service = 0.0
        self.cost = 0.0

    def ended(self, service: float) -> None:
        """A call ended and cost so much, more than 0."""
        self.service += service
        cost = self.cost
        self.cost = cost + (service - cost) / MEMORY if cost else service


class Accounts:
    """All tenants' of one backend. `sent` is what was sent to it in all."""

    __slots__ = ("_by", "sent")

    def __init__(self) -> None:
        self._by: dict[str, Account] = {}
        self.sent = 0.0

    def of(self, tenant: str) -> Account:
        """The account of a tenant, or the one it shares with others."""
        account = self._by.get(tenant)
        if account is None:
            name = tenant if len(self._by) < NAMES else OTHERS
            account = self._by.setdefault(name, Account())
        return account

    def costs(self) -> "Costs":
        """What calls cost lately, as of now. O(tenants)."""
        known = {name: account.cost for name, account in self._by.items() if account.cost}
        return Costs(known, sum(known.values()) / len(known) if known else 0.0)

    def services(self) -> Mapping[str, float]:
        """What each tenant's calls have cost so far; it never falls."""
        return {name: account.service for name, account in self._by.items()}

    def __repr__(self) -> str:
        return f"<Accounts {len(self._by)} tenants>"


class Costs:
    """What one call costs lately, by tenant; of a tenant that has had no answer yet, what those of the others do."""

    __slots__ = ("_by", "_mean")

    def __init__(self, by: Mapping[str, float], mean: float) -> None:
        self._by = by
        self._mean = mean

    def of(self, tenant: str) -> float:
        return self._by.get(tenant, self._mean)
