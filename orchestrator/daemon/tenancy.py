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
from orchestrator.store.base import Store
from orchestrator.store.ledger_port import SpentRow


class Tenancy:
    """Keys and budgets of one daemon. `open` makes it."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        catalogue: Callable[[], Catalogue],
        *,
        store: Store,
        spent: Iterable[SpentRow],
    ) -> None:
        self.keys = FollowedKeys(folder, trio.current_time)
        self.identify = Identity(self.keys.ring, time.time)
        self.budgets = TenantBudgets(
            budgets_of(config),
            prices=lambda: catalogue().prices,
            longest=lambda model: catalogue().longest(model),
            wall=time.time,
            spent=spent,
            ledger=store.ledger,
        )
        self._file = None if store.durable else SpentFile(folder, self.budgets.spent)

    @classmethod
    async def open(cls, folder: Path, config: Config, catalogue: Callable[[], Catalogue], store: Store) -> "Tenancy":
        """Keys and budgets as the folder and the ledger say.

        Where the ledger is gone with the daemon, a file in the folder says what was spent; such a file goes into a
        ledger that is not. Raises `KeyFileError`, `SpentFileError`, `StoreError`.
        """
        if store.durable:
            await carry_over(folder, store.ledger, time.time())
            spent = await store.ledger.spent()
        else:
            spent = [as_row(record) for record in read_spent(folder)]
        return cls(folder, config, catalogue, store=store, spent=spent)

    def __repr__(self) -> str:
        return f"<Tenancy {self.keys!r} {self.budgets!r}>"

    def configure(self, config: Config, spent: Iterable[SpentRow] = ()) -> None:
        """Puts a new configuration's budgets in force; `spent`: what new ones begin with, of the ledger."""
        self.budgets.configure(budgets_of(config), spent)

    async def keep(self) -> None:
        """Keeps what tenants spend in a file, where no ledger outlives the daemon; until it is cancelled."""
        if self._file is not None:
            await self._file.keep()


def require_keys(folder: Path, http: HttpConfig) -> None:
    """Raises `InvalidLimits` where others than this machine could reach a daemon that asks for no key."""
    if not http.loopback and not FollowedKeys(folder, trio.current_time).ring():
        raise InvalidLimits(
            "daemon.host",
            f"must be this machine's own, like 127.0.0.1, as long as there are no keys to ask for, not {http.host};"
            " `headrace keys add TENANT` makes one",
        )
