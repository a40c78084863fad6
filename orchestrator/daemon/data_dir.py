"""The folder in which a daemon keeps what outlives it, held by one daemon at a time.

The lock is `flock` on a file in it: the kernel lets it go when its holder ends, however that ends, so there is no stale
lock to clean up. The file holds who has it, for the message that the next one gets.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.errors import HeadraceError

LOCK = "lock"


class DataDirError(HeadraceError):
    """The folder cannot be used; the message says why, and who has it."""


@contextmanager
def open_data_dir(path: Path) -> Iterator[Path]:
    """Makes the folder, if need be, and holds it inside the block. Raises `DataDirError`.

    Only its owner can read what is in it: inputs and answers are nobody else's business.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataDirError(f"data_dir {path}: {(error.strerror or str(error)).lower()}") from error
    try:
        _lock(fd, path)
        yield path
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip() or "unknown"
        raise DataDirError(
            f"data_dir {path}: another daemon holds it (process {holder}); end that one, or give this one a folder"
            " of its own with --data-dir"
        ) from None
    except OSError as error:
        raise DataDirError(f"data_dir {path}: it cannot be locked: {(error.strerror or str(error)).lower()}") from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
