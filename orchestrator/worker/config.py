"""What a worker process is told when it is started."""

import os
import re
import secrets
import socket
from collections.abc import Callable

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.backends.secret import Secret, load_key
from orchestrator.client.wire import check_url

MOST_RUNS = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _silent(message: str) -> None:
    pass


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """One worker. `daemons` are the addresses at which the daemon may be, tried in turn; `runs` are driven at once.

    Without a daemon for `patience` seconds it ends. Its key is what the variable `key_env` or the file `key_file`
    holds. `tell` is told what a person should know. Raises `InvalidLimits`, `BadAddress`.
    """

    daemons: tuple[str, ...]
    runs: int = 64
    name: str = ""
    patience: float = 600.0
    key_env: str | None = None
    key_file: str | None = None
    tell: Callable[[str], None] = _silent

    def __post_init__(self) -> None:
        if not self.daemons:
            raise InvalidLimits("daemons", "one address at least")
        for url in self.daemons:
            check_url(url)
        if not 1 <= self.runs <= MOST_RUNS:
            raise InvalidLimits("runs", f"a whole number from 1 to {MOST_RUNS}, not {self.runs}")
        if not self.patience >= 0:
            raise InvalidLimits("patience", f"a number of seconds, 0 or more, not {self.patience:g}")
        if self.name and not _NAME.fullmatch(self.name):
            raise InvalidLimits(
                "name", f"up to 64 letters, digits, dots, dashes and underscores, not {self.name[:80]!r}"
            )
        if self.key_env is not None and self.key_file is not None:
            raise InvalidLimits("key_file", "give it or key_env, not both")

    def key(self) -> Secret | None:
        """The key that it sends; None where none is named. Raises `InvalidLimits`."""
        return load_key("worker", env=self.key_env, file=self.key_file)


def new_name() -> str:
    """A name for a worker that was given none: its machine, its process, and something that is nobody else's."""
    machine = re.sub(r"[^A-Za-z0-9.-]+", "-", socket.gethostname()).strip("-.")[:32] or "worker"
    return f"{machine}-{os.getpid()}-{secrets.token_hex(3)}"
