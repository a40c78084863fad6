"""The processes of a benchmark: started, heard, ended."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STARTS_WITHIN: Final = 30.0
"""Seconds in which a process must say where it listens."""

HEADRACE: Final = ("-c", "from orchestrator.cli.app import main; main()")
"""Arguments of Python that are the command `headrace`."""

_POLL: Final = 0.02


class NotStarted(Exception):
    """A process ended, or said nothing of use, before it could be measured."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Inside the block SIGTERM is what SIGINT is, so that no process that was started here outlives this one."""
    previous = signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def stub(rate: float = 0.0) -> Iterator[str]:
    """The stub in a process of its own for as long as the block; its base URL."""
    with running(["-m", "bench.stub", "--rate", str(rate)], r"(http://\S+/v1)", Path.cwd()) as url:
        yield url


@contextmanager
def daemon(upstream: str, *, concurrency: int) -> Iterator[str]:
    """`headrace serve` before `upstream` for as long as the block; the base URL of its gateway."""
    command = [*HEADRACE, "serve", "--upstream", upstream]
    options = ["--concurrency", str(concurrency), "--port", "0", "--drain-seconds", "0", "--log-level", "warning"]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        options += ["--data-dir", f"{folder}/data"]
        with running([*command, *options], r"serves (http://[^\s,]+)", Path(folder)) as url:
            yield url.rstrip("/") + "/v1"


@contextmanager
def running(arguments: Sequence[str], says: str, folder: Path) -> Iterator[str]:
    """A Python process that says `says` on either of its streams, and the first group of what it said.

    Raises `NotStarted`.
    """
    with tempfile.NamedTemporaryFile(prefix="headrace-bench-") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
        said = Path(output.name)
        try:
            deadline = time.monotonic() + STARTS_WITHIN
            while (found := re.search(says, said.read_text(errors="replace"))) is None:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NotStarted(f"{' '.join(arguments[:3])} did not start; it said:\n{said.read_text()}")
                time.sleep(_POLL)
            yield found[1]
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
