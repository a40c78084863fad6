"""What a daemon keeps of its clients: who may ask, and what their tenants may spend."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import trio

from agents.errors import InvalidLimits
from orchestrator.api.identity import Identity
from orchestrator.api.surface import HttpConfig
from orchestrator.budget_file import SpentFile, as_row, carry_over, read_spent
from orchestrator.budgets import TenantBudgets
from orchestrator.catalogue import Catalogue
from orchestrator.config.catalogue import budgets_of
from orchestrator.config.schema import Config
from orchestrator.key_file import FollowedKeys
from orchestrator.store.base import Ledger, SpentRow


class Tenancy:
    """Keys and budgets of one daemon. Raises `KeyFileError`, `SpentFileError` where what is there cannot be read."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        catalogue: Callable[[], Catalogue],
        *,
        ledger: Ledger | None = None,
        spent: Iterable[SpentRow] = (),
    ) -> None:
        self.keys = FollowedKeys(folder, trio.current_time)
        self.identify = Identity(self.keys.ring, time.time)
        self.budgets = TenantBudgets(
            budgets_of(config),
            prices=lambda: catalogue().prices,
            longest=lambda model: catalogue().longest(model),
            wall=time.time,
            spent=map(as_row, read_spent(folder)) if ledger is None else spent,
            ledger=ledger,
        )
        self.spent = SpentFile(folder, self.budgets.spent)

    @classmethod
    async def open(cls, folder: Path, config: Config, catalogue: Callable[[], Catalogue], ledger: Ledger) -> "Tenancy":
        """The tenancy as the ledger, and a file that an earlier release left, say. Raises `StoreError` as well."""
        await carry_over(folder, ledger, time.time())
        return cls(folder, config, catalogue, ledger=ledger, spent=await ledger.spent())

    def __repr__(self) -> str:
        return f"<Tenancy {self.keys!r} {self.budgets!r}>"

    def configure(self, config: Config, spent: Iterable[SpentRow] = ()) -> None:
        """Puts a new configuration's budgets in force; `spent`: what new ones begin with, of the ledger."""
        self.budgets.configure(budgets_of(config), spent)

    def require_keys(self, http: HttpConfig) -> None:
        """Raises `InvalidLimits` where others than this machine could reach a daemon that asks for no key."""
        if not http.loopback and not self.keys.ring():
            raise InvalidLimits(
                "daemon.host",
                f"must be this machine's own, like 127.0.0.1, as long as there are no keys to ask for, not {http.host};"
                " `headrace keys add TENANT` makes one",
            )
