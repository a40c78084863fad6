"""Tools whose effects are lines of files in one folder, whichever node they are called on."""

import os
from collections import Counter
from pathlib import Path

import trio

from agents.context import ToolContext

FOLDER = "HEADRACE_TEST_DEEDS"
"""The environment variable that names the folder."""

SECONDS = 0.3
"""How long a deed takes, half of it before and half of it behind its effect."""

CONFIG = f"""
[backends.sim]
kind = "simulated"
speed = 200
tool_rounds = 2

[models.sim]
backends = ["sim"]

[tools.post]
function = "{__name__}:post"

[tools.put]
function = "{__name__}:put"
idempotent = true

[agents.clerk]
model = "sim"
tools = ["post", "put"]
"""


async def post(text: str, context: ToolContext) -> str:
    """Send a letter, which nobody can take back."""
    await _do("posted", context)
    return f"sent {text}"


async def put(text: str, context: ToolContext) -> str:
    """Put a thing in its place, where it may be already."""
    await _do("put", context)
    return f"put {text}"


async def _do(what: str, context: ToolContext) -> None:
    await trio.sleep(SECONDS / 2)
    fd = os.open(Path(os.environ[FOLDER]) / what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{context.key} {os.getpid()}\n".encode())
    os.close(fd)
    await trio.sleep(SECONDS / 2)


def done(folder: Path, what: str, job: str) -> Counter[str]:
    """How often each key of a job's runs had its effect."""
    return Counter(key for key, _ in _lines(folder, what, job))


def processes(folder: Path, job: str) -> set[str]:
    """Where the job's deeds were done."""
    return {process for what in ("posted", "put") for _, process in _lines(folder, what, job)}


def _lines(folder: Path, what: str, job: str) -> list[tuple[str, str]]:
    path = folder / what
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(key, process) for key, process in lines if key.startswith(f"{job}.")]
