"""Metrics in a file, as node_exporter's textfile collector reads them.

The collector may look at any moment, so the file is never half written: each text goes to a neighbour first, which then
takes the file's place in one step. The neighbour's name does not end in `.prom`, so the collector leaves it alone. See
https://github.com/prometheus/node_exporter, "Textfile Collector".
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import trio

from agents.errors import HeadraceError

EVERY = 5.0
"""Seconds between two writes: a scrape is seldom more frequent."""


class MetricsError(HeadraceError):
    """The metrics cannot be written; the message names the file."""


def check_metrics_path(path: Path) -> None:
    """Raises `MetricsError` for a place where no file can be replaced, before anything else is started."""
    folder = _target(path).parent
    if not folder.is_dir():
        raise MetricsError(f"{path}: no such folder")
    if not os.access(folder, os.W_OK):
        raise MetricsError(f"{path}: no permission to write in its folder")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    # Replacing a device or a pipe by a file would break it for everybody.
    if not stat.S_ISREG(mode):
        raise MetricsError(f"{path}: it is there and is no regular file")


class MetricsFile:
    """Writes what `read` returns, now and again. `on_problem` is told, once for each reason, why a write failed."""

    def __init__(self, path: Path, read: Callable[[], bytes], on_problem: Callable[[str], None]) -> None:
        self._path = path
        self._read = read
        self._on_problem = on_problem
        self._told: set[str] = set()

    def begin(self) -> None:
        """The first write. Raises `MetricsError`: nobody has started anything yet, so this can be put right."""
        write_metrics(self._path, self._read())

    def write(self) -> None:
        """One more write. If it fails the work goes on without metrics."""
        try:
            write_metrics(self._path, self._read())
        except MetricsError as error:
            if error.message not in self._told:
                self._told.add(error.message)
                self._on_problem(error.message)

    async def run(self, every: float = EVERY) -> None:
        """Writes every so many seconds until cancelled."""
        while True:
            await trio.sleep(every)
            self.write()


def write_metrics(path: Path, text: bytes) -> None:
    """Puts `text` in the file's place. Raises `MetricsError`, and leaves the file as it was.

    A few kilobytes into the page cache, without waiting for the disk: after a crash of the machine the old text is as
    good as the new one.
    """
    target = _target(path)
    neighbour = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        neighbour.write_bytes(text)
        neighbour.chmod(0o644)
        neighbour.replace(target)
    except OSError as error:
        neighbour.unlink(missing_ok=True)
        raise MetricsError(
            f"{path}: the metrics cannot be written: {(error.strerror or str(error)).lower()}"
        ) from error


def _target(path: Path) -> Path:
    """The file itself where the path is a link."""
    return Path(os.path.realpath(path))
