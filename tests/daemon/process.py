"""The real daemon in a process of its own, with its words read as they come."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from orchestrator.cli.app import main; main()"]
ROOT = Path(__file__).parents[2]
SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    """This process's environment, so that the command finds the source tree and no file of a user's."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "HEADRACE_CONFIG": "", **more}


class Process:
    """A command that runs. `said` is everything it wrote to standard error so far."""

    def __init__(self, *arguments: str, cwd: Path, program: Sequence[str] = COMMAND, **more: str) -> None:
        self._process = subprocess.Popen(
            [*program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=cwd,
            env=environment(**more),
        )
        self._lines: list[str] = []
        self._out: list[str] = []
        self._new = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stderr, self._lines), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stdout, self._out), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: "Iterator[str]", into: list[str]) -> None:
        for line in stream:
            with self._new:
                into.append(line)
                self._new.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        return "".join(self._lines)

    @property
    def out(self) -> str:
        return "".join(self._out)

    def hear(self, pattern: str, seconds: float = SECONDS) -> re.Match[str]:
        """Waits until it has said something, anywhere in what it has said so far."""
        deadline = time.monotonic() + seconds
        with self._new:
            while (found := re.search(pattern, self.said)) is None:
                left = deadline - time.monotonic()
                if left <= 0 or (self._process.poll() is not None and not self._new.wait(0.5)):
                    pytest.fail(f"it did not say {pattern!r}, but:\n{self.said}")
                self._new.wait(min(left, 0.5))
            return found

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, seconds: float = SECONDS) -> int:
        """Waits for its end and returns its exit code."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end within {seconds} s; it said:\n{self.said}")
        for reader in self._readers:
            reader.join(SECONDS)
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(SECONDS)
        for reader, stream in zip(self._readers, (self._process.stderr, self._process.stdout), strict=True):
            reader.join(SECONDS)
            assert stream is not None
            stream.close()


@contextmanager
def started(*arguments: str, cwd: Path, program: Sequence[str] = COMMAND, **more: str) -> Iterator[Process]:
    """The command runs inside the block, and is gone behind it."""
    process = Process(*arguments, cwd=cwd, program=program, **more)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def daemon(cwd: Path, config: str, *options: str) -> Iterator[tuple[Process, str]]:
    """A daemon on `headrace.toml` in `cwd`, and its URL once it is up."""
    (cwd / "headrace.toml").write_text(config)
    with started("serve", "--port", "0", "--data-dir", "data", *options, cwd=cwd) as process:
        yield process, process.hear(r"serves (http://\S+?),")[1]


def run(*arguments: str, cwd: Path, url: str) -> "subprocess.CompletedProcess[str]":
    """A client's command, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(HEADRACE_URL=url),
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
