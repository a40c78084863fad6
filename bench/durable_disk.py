"""Where the files of the benchmark lie, and what a sync costs there: nothing on a file system in memory."""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

SYNCS: Final = 200
_PAGE: Final = 4096

_datasync: Final = getattr(os, "fdatasync", os.fsync)


class Disk(Struct, frozen=True):
    """A file system by its type, and what writing 4 KiB at a file's end and syncing it costs there."""

    file_system: str
    sync_us: float


def look_at(folder: Path) -> Disk:
    """The folder's file system, measured by `SYNCS` syncs; the median counts."""
    seconds: list[float] = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"\1" * _PAGE)
            _datasync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return Disk(file_system(folder), statistics.median(seconds) * 1e6)


def file_system(folder: Path) -> str:
    """The type of the file system that is mounted nearest above the folder; `unknown` where nobody says."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return "unknown"
    wanted = folder.resolve()
    nearest, found = -1, "unknown"
    for line in mounts.splitlines():
        # https://docs.kernel.org/filesystems/proc.html: field 5 is where, the first behind " - " is the type.
        fields, _, rest = line.partition(" - ")
        point = Path(fields.split()[4].replace(r"\040", " "))
        if wanted.is_relative_to(point) and len(point.parts) >= nearest:
            nearest, found = len(point.parts), rest.split()[0]
    return found
