"""A small Ray cluster on this machine, in a process tree of its own, of which nothing is left behind it.

For the pool's benchmark and its tests. It costs about four seconds, and 300 MB of memory for two nodes.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bench.processes import NotStarted

ENDS_WITHIN: Final = 60.0
"""Seconds for all of its processes to be gone."""


class Cluster:
    """A cluster that runs. `address` is that of its head."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self._process = process
        self.address = address

    def kill(self) -> None:
        """Ends the oldest node as the loss of its machine would: all that runs there is killed."""
        self._tell("kill")

    def add(self) -> None:
        """One more node."""
        self._tell("add")

    def _tell(self, words: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != "done\n":
            raise RuntimeError(f"the Ray cluster did not do {words!r}")


@contextmanager
def local_cluster(nodes: int = 2, *, port: int = 0, **environ: str) -> Iterator[Cluster]:
    """A cluster that runs inside the block. Its head listens on `port` if given; actors have `environ` as well.

    Raises `NotStarted`.
    """
    folder = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))  # its sockets' paths may not be long
    (folder / "ray").mkdir()
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.ray_cluster", str(nodes), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**ray_environment(folder), **environ},
            start_new_session=True,
        )
    group = process.pid
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise NotStarted(f"the Ray cluster did not start; it said:\n{(folder / 'said').read_text()}")
        yield Cluster(process, address)
    finally:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDS_WITHIN)
        _end_all(folder, group)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def ray_environment(folder: Path) -> dict[str, str]:
    """What Ray has to know so that it keeps all its files in `folder` and tells nobody anything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}


def _end_all(folder: Path, group: int) -> None:
    """Kills what is left of the cluster's processes, each of which has the cluster's folder in its environment."""
    mark = f"RAY_TMPDIR={folder}".encode()
    deadline = time.monotonic() + ENDS_WITHIN
    while left := [pid for pid in _pids() if pid != group and mark in _environ(pid)]:
        assert time.monotonic() < deadline, f"these did not die: {left}"
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
