"""The folder in which a daemon keeps what outlives it, held by one daemon at a time.

Daemons of one database share it. There the lease says who may write, and not a lock: one who leads would have to wait
for a lock of one who was stopped or hangs, and a lock may not reach to another machine. What an old leader still writes
when it wakes is in the log already, and goes to the very bytes of a file that the log gives it. They keep out a daemon
that would have the folder for itself, and are kept out by it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agents.errors import HeadraceError
from orchestrator.lockfile import Held, hold

LOCK = "lock"


class DataDirError(HeadraceError):
    """The folder cannot be used; the message says why, and who has it."""


@contextmanager
def open_data_dir(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Makes the folder, if need be, and holds it inside the block; `shared` with other daemons. Raises `DataDirError`.

    Only its owner can read what is in it: inputs and answers are nobody else's business.
    """
    with ExitStack() as stack:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(hold(path / LOCK, shared=shared))
        except Held as held:
            raise DataDirError(
                f"data_dir {path}: another daemon holds it ({held.holder}); end that one, or give this one a folder"
                " of its own with --data-dir"
            ) from None
        except OSError as error:
            raise DataDirError(f"data_dir {path}: {(error.strerror or str(error)).lower()}") from error
        yield path
