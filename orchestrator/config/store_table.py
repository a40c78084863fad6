"""`[store]`: where sessions, their logs and the ledger of model calls are kept."""

import re
from typing import Final, Literal

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.config.numbers import NotNegative

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

DSN_VARIABLE: Final = "HEADRACE_POSTGRES"
"""The environment variable that holds a PostgreSQL address where the file names none."""


class StoreTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`.

    `sqlite` is one file in the daemon's data folder. `postgres` is a database, whose address (`postgresql://...`) the
    environment variable `dsn_env` holds, or the file `dsn_file`; daemons of one database share their data folder, and
    one of them is active. `memory` is gone with the daemon. Sessions, and calls of the ledger, that nobody has touched
    for `keep_days` are removed; with 0 they are kept for ever.
    """

    kind: Literal["sqlite", "postgres", "memory"] = "sqlite"
    dsn_env: str | None = None
    dsn_file: str | None = None
    keep_days: NotNegative = 30.0

    def __post_init__(self) -> None:
        if self.kind != "postgres" and (self.dsn_env is not None or self.dsn_file is not None):
            raise InvalidLimits("kind", 'must be "postgres" where there is an address of a database')
        if self.dsn_env is not None and self.dsn_file is not None:
            raise InvalidLimits("dsn_file", "give it or dsn_env, not both")
        if self.dsn_env is not None and not _VARIABLE.fullmatch(self.dsn_env):
            # not quoted: it may well be the address, with a password in it
            raise InvalidLimits("dsn_env", "must be the name of an environment variable, not the address itself")
