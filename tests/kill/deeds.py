"""Tools whose effects are lines of files in the daemon's folder, for daemons that are killed in the middle of them.

The first `FREE` calls go through. Later ones have their effect and then wait until somebody makes the file
`open`, so that a daemon can be killed while they are under way.
"""

import os
from collections import Counter
from pathlib import Path

import trio

from agents.context import ToolContext

FREE = 24
OPEN = "open"

CONFIG = """
[tools.post]
function = "tests.kill.deeds:post"

[tools.put]
function = "tests.kill.deeds:put"
idempotent = true

[agents.clerk]
system = "Be brief."
tools = ["post", "put"]
budget = { rounds = 6 }
"""


async def post(text: str, context: ToolContext) -> str:
    """Send a letter, which nobody can take back."""
    await _do("posted", context.key)
    return f"sent {text}"


async def put(text: str, context: ToolContext) -> str:
    """Put a thing in its place, where it may be already."""
    await _do("put", context.key)
    return f"put {text}"


def done(folder: Path, what: str) -> Counter[str]:
    """How often each key had its effect."""
    path = folder / what
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def effects(folder: Path) -> int:
    """How many there were in all."""
    return done(folder, "posted").total() + done(folder, "put").total()


async def _do(what: str, key: str) -> None:
    fd = os.open(what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, key.encode() + b"\n")
    os.close(fd)
    while effects(Path()) > FREE and not os.access(OPEN, os.F_OK):  # noqa: ASYNC110 -- another process makes it
        await trio.sleep(0.02)
