"""A file that one process holds at a time, and that says who; or several that share it, and nobody beside them.

The lock is `flock`: the kernel lets it go when its holder ends, however that ends, so there is no stale lock to clean
up. The file holds who has it, for the message that the next one gets. It is never removed: whoever opened it before it
was removed would hold a lock that nobody else sees.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final


class Held(Exception):
    """Somebody else holds the file; `holder` is what they wrote into it."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"held by {holder}")
        self.holder = holder


SHARED: Final = "processes that share it"
"""What the file says where there is not one holder."""


@contextmanager
def hold(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds the file inside the block, making it if need be; `shared` with all others who do so.

    Raises `Held`, or `OSError` where it cannot be used.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip()
            if holder.isdecimal():
                holder = f"process {holder}"
            raise Held(holder or "an unknown process") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{SHARED if shared else os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
