"""The folder in which a daemon keeps what outlives it, held by one daemon at a time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agents.errors import HeadraceError
from orchestrator.lockfile import Held, hold

LOCK = "lock"


class DataDirError(HeadraceError):
    """The folder cannot be used; the message says why, and who has it."""


@contextmanager
def open_data_dir(path: Path) -> Iterator[Path]:
    """Makes the folder, if need be, and holds it inside the block. Raises `DataDirError`.

    Only its owner can read what is in it: inputs and answers are nobody else's business.
    """
    with ExitStack() as stack:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(hold(path / LOCK))
        except Held as held:
            raise DataDirError(
                f"data_dir {path}: another daemon holds it ({held.holder}); end that one, or give this one a folder"
                " of its own with --data-dir"
            ) from None
        except OSError as error:
            raise DataDirError(f"data_dir {path}: {(error.strerror or str(error)).lower()}") from error
        yield path
