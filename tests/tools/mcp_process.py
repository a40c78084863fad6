"""A real MCP server, made with the SDK, in a process of its own: run as a script, over stdio or HTTP.

Over HTTP it prints its port. The tool `watched` reports to a socket of the test's what it comes to.
"""

import os
import socket
import sys
import time

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("test", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool()
def refuse() -> str:
    """Answers with an error of the protocol."""
    raise MCPError(-32050, "not today")


@server.tool()
def much(count: int) -> str:
    """Says much."""
    return "x" * count


@server.tool()
def picture() -> CallToolResult:
    """Answers with a picture."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="look:"),
            ImageContent(type="image", data="aGFsbG8=", mime_type="image/png"),
        ]
    )


@server.tool()
def who() -> str:
    """The process and what it was given."""
    return f"{os.getpid()} {os.environ.get('GIVEN')} {os.environ.get('WITHHELD')}"


@server.tool()
def key(context: Context) -> str:  # type: ignore[type-arg]
    """The key that came with the call."""
    return str((context.request_context.meta or {}).get("headrace/key"))


@server.tool()
def traced(context: Context) -> str:  # type: ignore[type-arg]
    """The trace context that came with the call."""
    return str((context.request_context.meta or {}).get("traceparent"))


@server.tool()
async def watched(port: int) -> str:
    """Says to the port when it starts and how it ends; waits for a line from there."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"started\n")
        try:
            said = await stream.receive()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await stream.send(b"cancelled\n")
            raise
        return said.decode()


@server.tool()
def deafen() -> str:
    """Never answers, nor does the server from then on."""
    sys.stderr.write("going deaf\n")
    sys.stderr.flush()
    os.kill(os.getpid(), 19)  # stopped, not ended
    return ""


@server.tool()
async def learn(context: Context) -> str:  # type: ignore[type-arg]
    """From then on the server has one tool more."""
    server.add_tool(picture, name="learned")
    await context.notify_tools_changed()
    return "learned"


@server.tool(name="dotted.name/with-strange-characters")
def dotted() -> str:
    """Has a name that no provider takes."""
    return "dotted"


def serve_http(port: int, *, stateless: bool) -> None:
    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app(stateless_http=stateless)
    config = uvicorn.Config(app, log_level="critical")
    anyio.run(lambda: uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "broken":
        sys.stderr.write("no database\n")
        sys.exit(3)
    elif sys.argv[1] == "never":
        time.sleep(3600)
    else:
        serve_http(int(sys.argv[2]), stateless=False)
