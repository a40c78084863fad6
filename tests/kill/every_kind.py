"""Agents with a tool of each kind, whose calls wait in the middle for a file; see `tests.kill.outside`."""

import sys
import time
from pathlib import Path

import trio

from agents.context import ToolContext
from tests.kill import outside
from tests.kill.outside import leave, may_go_on

_PYTHON = f'"{sys.executable}", "{outside.__file__}"'

CONFIG = f"""
[backends.one]
kind = "simulated"
speed = 100

[backends.two]
kind = "simulated"
speed = 100
tool_rounds = 2

[backends.many]
kind = "simulated"
speed = 100
parallel_tools = 24

[models.one]
backends = ["one"]

[models.two]
backends = ["two"]

[models.many]
backends = ["many"]

[tools.send]
function = "tests.kill.every_kind:send"
approval = "always"

[tools.put]
function = "tests.kill.every_kind:put"
idempotent = true

[tools.press]
command = [{_PYTHON}, "press"]

[tools.give]
agent = "putter"
width = 24

[tools.give_sender]
agent = "sender"

[tools.ask]
ask = true

[agents.sender]
model = "one"
tools = ["send"]

[agents.putter]
model = "one"
tools = ["put"]

[agents.giver]
model = "one"
tools = ["give"]

[agents.sender_of_senders]
model = "one"
tools = ["give_sender"]

[agents.asker]
model = "one"
tools = ["ask"]
"""

WITH_A_SERVER = f"""
{CONFIG}
[tools.box]
mcp = [{_PYTHON}, "box"]

[agents.storer]
model = "two"
tools = ["box"]

[agents.everything]
model = "many"
tools = ["send", "put", "press", "box", "give", "ask"]
tool_concurrency = 24
"""
"""The same with an MCP server, which takes its time to start."""


def send(text: str, context: ToolContext) -> str:
    """Sends a letter, which nobody can take back, from a thread."""
    leave("sent", context.key)
    while not may_go_on(context.key):
        time.sleep(0.02)
    return f"sent {text}"


async def put(thing: str, context: ToolContext) -> str:
    """Puts a thing in its place, where it may be already."""
    leave("put", context.key)
    while not may_go_on(context.key):  # noqa: ASYNC110 -- another process makes it
        await trio.sleep(0.02)
    return f"put {thing}"


def let_go(folder: Path, run: str = "") -> None:
    """Lets all calls go on, or those of one run."""
    (folder / (f"{outside.OPEN}.{run}" if run else outside.OPEN)).touch()
