"""Real MCP servers for tests, over both transports, and what a tool of theirs reports while it runs."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import trio

from agents.context import ToolContext
from agents.execute import Outcome, execute, slots_for
from agents.tools import BaseTool
from orchestrator.tools.mcp import McpServers
from orchestrator.tools.mcp_config import McpConfig, McpStatus

SCRIPT = str(Path(__file__).with_name("mcp_process.py"))


def stdio(mode: str = "stdio", **options: Any) -> McpConfig:
    return McpConfig(name="t", command=(sys.executable, SCRIPT, mode), **options)


class HttpServer:
    """The server in a process that speaks HTTP; can be killed and started again on its port."""

    def __init__(self) -> None:
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, "http", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def config(self, **options: Any) -> McpConfig:
        return McpConfig(name="t", url=f"http://127.0.0.1:{self.port}/mcp", **options)


async def until(true: Callable[[], bool]) -> None:
    """Other processes are waited for by looking."""
    while not true():  # noqa: ASYNC110
        await trio.sleep(0.01)


class Served:
    """Running servers, and calls to the tools of the one called `t` as a run makes them."""

    def __init__(self, servers: McpServers) -> None:
        self.servers = servers

    def tool(self, name: str) -> BaseTool:
        return next(tool for tool in self.servers.tools("t") if tool.name == f"t__{name}")

    async def call(self, name: str, arguments: str = "", key: str = "key") -> Outcome:
        tool = self.tool(name)
        slots = slots_for(tool)
        await slots.acquire()
        context = ToolContext(run="run", call="call", key=key, cancel_run=lambda: None)
        return await execute(tool, tool.bind(tool.decode(arguments), context), context, slots)

    @property
    def status(self) -> McpStatus:
        return self.servers.status()[0]

    async def until(self, state: str, *, starts: int = 1) -> None:
        await until(lambda: self.status.state == state and self.status.starts >= starts)

    async def pid(self) -> int:
        return int((await self.call("who")).content.split()[0])


@asynccontextmanager
async def serving(*configs: McpConfig, trace: Callable[[str], str] = lambda key: "") -> AsyncIterator[Served]:
    servers = McpServers(configs, trace=trace)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(servers.run)
            yield Served(servers)
            nursery.cancel_scope.cancel()


class Watch:
    """What the tool `watched` says of itself, line by line; it ends its call when it is told something."""

    async def __aenter__(self) -> Self:
        self._calls: list[WatchedCall] = []
        self._listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.arguments = f'{{"port": {self._listeners[0].socket.getsockname()[1]}}}'
        return self

    async def __aexit__(self, *error: object) -> None:
        for resource in (*self._listeners, *self._calls):
            await resource.aclose()

    async def next_call(self) -> "WatchedCall":
        call = WatchedCall(await self._listeners[0].accept())
        self._calls.append(call)
        assert await call.says() == "started"
        return call


class WatchedCall:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def says(self) -> str:
        """Its next word; nothing if its process is gone."""
        try:
            return (await self._stream.receive_some(100)).decode().strip()
        except trio.BrokenResourceError:
            return ""

    async def tell(self, word: str) -> None:
        await self._stream.send_all(word.encode())

    async def aclose(self) -> None:
        await self._stream.aclose()
