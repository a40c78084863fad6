"""Effects as lines of files, and two programs that have some: a command, and an MCP server with one tool.

Whatever has had its effect waits until somebody makes a file, so that whoever called can be killed meanwhile: `open`
for everybody, `open.RUN` for the calls of one run. Run as `outside.py press` and `outside.py box`; both work in the
daemon's folder.
"""

import os
import sys
import time

OPEN = "open"
PATIENCE = 30.0
"""Seconds until a process that nobody lets go on ends by itself."""


def leave(what: str, line: str) -> None:
    """One line, there for whoever looks after this process was killed."""
    fd = os.open(what, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode() + b"\n")
    os.close(fd)


def may_go_on(key: str) -> bool:
    """Whether somebody lets calls go on, or those of this run."""
    return os.access(OPEN, os.F_OK) or os.access(f"{OPEN}.{key.partition('/')[0]}", os.F_OK)


def press() -> None:
    key = os.environ["HEADRACE_KEY"]
    sys.stdin.readline()
    leave("pressed", key)
    deadline = time.monotonic() + PATIENCE
    while not may_go_on(key) and time.monotonic() < deadline:
        time.sleep(0.02)
    print("pressed")


def serve_box() -> None:
    import anyio
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context

    server = MCPServer("box", log_level="CRITICAL")

    @server.tool()
    async def store(thing: str, context: Context) -> str:  # type: ignore[type-arg]
        """Stores a thing."""
        key = str((context.request_context.meta or {})["headrace/key"])
        leave("servers", str(os.getpid()))
        leave("stored", key)
        while not may_go_on(key):  # noqa: ASYNC110 -- another process makes it
            await anyio.sleep(0.02)
        return f"stored {thing}"

    server.run("stdio")


if __name__ == "__main__":
    {"press": press, "box": serve_box}[sys.argv[1]]()
