"""Cells that are commands: a process each, which ends with its cell whatever becomes of it.

Its last line of standard output is a JSON object with `success` and numbers, or `true` or `false`. Without one the exit
code decides: 0 is success, 1 none; everything else, and a signal, means that the command itself is broken.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from bench.experiment.cells import Cell
from bench.experiment.outcome import Outcome, broken, read_result
from bench.experiment.placeholders import filled, variables

KEPT_BYTES: Final = 65_536
"""Of each stream so much is kept, its end."""


class CommandRunner:
    """Runs `command` in `folder`, once for each cell."""

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        self._command = command
        self._folder = folder

    def check(self, cell: Cell) -> None:
        """Raises `SpecError` where the command cannot be made up for a cell."""
        for word in self._command:
            filled(word, cell)

    async def run(self, cell: Cell) -> Outcome:
        """Runs it to its end, or kills it and all that it started when cancelled."""
        words = [filled(word, cell) for word in self._command]
        try:
            process = await trio.lowlevel.open_process(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env={**os.environ, **variables(cell)},
                start_new_session=True,
            )
        except OSError as error:
            return broken(f"{words[0]} cannot be started: {error.strerror}")
        ends: dict[str, bytes] = {"out": b"", "err": b""}
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep_end, process.stdout, ends, "out")
                nursery.start_soon(_keep_end, process.stderr, ends, "err")
                await process.wait()
                # A child that went on in the background would hold the streams open for ever.
                _kill_group(process.pid)
        finally:
            _kill_group(process.pid)
            with trio.CancelScope(shield=True):
                await process.wait()
        return _outcome(process.returncode, ends["out"], ends["err"])


async def _keep_end(stream: trio.abc.ReceiveStream | None, ends: dict[str, bytes], name: str) -> None:
    if stream is None:
        return
    async with stream:
        async for chunk in stream:
            ends[name] = (ends[name] + bytes(chunk))[-KEPT_BYTES:]


def _outcome(code: int | None, out: bytes, err: bytes) -> Outcome:
    said = err.decode("utf-8", "replace").strip()[-1_000:]
    if code not in (0, 1):
        return broken(f"it ended with {_ending(code)}: 0 or 1 is right. {said}".strip())
    lines = out.decode("utf-8", "replace").strip().splitlines()
    try:
        result = msgspec.json.decode(lines[-1]) if lines else None
    except msgspec.DecodeError:
        result = None
    if isinstance(result, bool | dict):
        return read_result(result)
    return Outcome(state="done", success=int(code == 0), why=said if code else "")


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
