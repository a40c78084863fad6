"""Commands for tests: Python programs of a few lines, called through a `CommandTool` as a run would."""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import trio

from agents.context import ToolContext
from agents.execute import Outcome, execute, slots_for
from orchestrator.tools.command import CommandTool


class MemoryBlobs:
    """Keeps blobs in memory, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.kept: dict[str, bytes] = {}
        self.error = error

    async def put_blob(self, data: bytes) -> str:
        if self.error is not None:
            raise self.error
        digest = hashlib.sha256(data).hexdigest()
        self.kept[digest] = data
        return digest


def program(source: str, **settings: Any) -> CommandTool:
    """A tool that runs this source in a bare Python."""
    return CommandTool("program", [sys.executable, "-S", "-c", source], **settings)


def context(key: str = "run/1/0") -> ToolContext:
    return ToolContext(run="run", call="call-1", key=key, cancel_run=lambda: None, generation=7)


async def call(tool: CommandTool, arguments: Mapping[str, object] | None = None) -> Outcome:
    """One call, to its outcome."""
    slots = slots_for(tool)
    await slots.acquire()
    told, text = context(), msgspec.json.encode(arguments or {}).decode()
    return await execute(tool, tool.bind(tool.decode(text), told), told, slots)


async def written(path: Path) -> str:
    """What a program writes into a file, once it is there whole."""
    await until(lambda: _text(path).endswith("\n"))
    return _text(path).strip()


async def gone(pid: int) -> None:
    """Until no such process is there."""
    await until(lambda: not alive(pid))


async def until(holds: Callable[[], bool]) -> None:
    """Until what another process does can be seen; it cannot ring here."""
    while not holds():  # noqa: ASYNC110
        await trio.sleep(0.002)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def alive(pid: int) -> bool:
    """Whether it runs; one that was ended and is not reaped does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
