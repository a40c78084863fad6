"""Small files written whole: after a crash there is the old file or the new one, and never a half."""

import os
import secrets
from pathlib import Path

OWNER_ONLY = 0o600


def write_durably(path: Path, data: bytes) -> None:
    """Replaces a file, which only its owner can read; what has returned is on disk. Raises `OSError`."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
