"""The MCP servers of a daemon: all of them kept running, and their tools by server.

The SDK is only imported when there are servers: it is the extra `mcp`, and takes most of a second.
"""

import importlib.util
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from agents.errors import InvalidLimits
from agents.tools import BaseTool, InvalidTool
from orchestrator.tools.mcp_config import McpConfig, McpNotInstalled, McpStatus, McpUnavailable, UnknownServer
from orchestrator.tools.mcp_names import OF_SERVER, local_names

if TYPE_CHECKING:
    from mcp_types import Tool


INSTALL: Final = 'pip install "headrace[mcp]"'


Trace = Callable[[str], str]


class _Offer:
    """One server and the tools it offers, as agents get them. The last known tools stay while it is away."""

    def __init__(self, config: McpConfig, rng: random.Random, trace: Trace) -> None:
        from orchestrator.tools.mcp_server import McpServer

        self.server: McpServer = McpServer(config, self._listed, rng)
        self.tools: tuple[BaseTool, ...] | None = None
        self.left_out: tuple[str, ...] = ()
        self._limiter = trio.CapacityLimiter(config.concurrency)
        self._trace = trace

    def _listed(self, listed: tuple["Tool", ...]) -> None:
        from orchestrator.tools.mcp_tool import McpTool

        config = self.server.config
        by_name = {tool.name: tool for tool in reversed(listed) if not config.only or tool.name in config.only}
        tools, left_out = [], [f"{name}: the server has no such tool" for name in config.only if name not in by_name]
        for name, remote in local_names(config.name, sorted(by_name)).items():
            try:
                tools.append(McpTool(name, by_name[remote], self.server, self._limiter, self._trace))
            except InvalidTool as error:
                left_out.append(error.message)
        self.tools, self.left_out = tuple(tools), tuple(left_out)

    def status(self) -> McpStatus:
        return self.server.status(tuple(tool.name for tool in self.tools or ()))


class McpServers:
    """Servers by their configs. Raises `InvalidLimits` for two of one name, `McpNotInstalled` without the SDK.

    `trace` says the trace context (`traceparent`) that goes with a tool call, by the call's key; empty for none.
    """

    def __init__(
        self, configs: Sequence[McpConfig], *, rng: random.Random | None = None, trace: Trace = lambda key: ""
    ) -> None:
        names = [config.name for config in configs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidLimits("name", f"there are two MCP servers called {twice[0]!r}")
        if configs and importlib.util.find_spec("mcp") is None:
            raise McpNotInstalled(f"MCP server {names[0]} is configured, but the SDK is not installed: `{INSTALL}`")
        rng = rng or random.Random()
        self._offers = {config.name: _Offer(config, rng, trace) for config in configs}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keeps all servers running until cancelled. Has started when each server has been tried once."""
        async with trio.open_nursery() as nursery:
            for offer in self._offers.values():
                nursery.start_soon(offer.server.run)
            await self.tried()
            task_status.started()

    async def tried(self) -> None:
        """Returns when each server has been tried once."""
        for offer in self._offers.values():
            await offer.server.tried.wait()

    def tools(self, server: str) -> tuple[BaseTool, ...]:
        """The server's tools, the last known while it is away. Raises `UnknownServer`, `McpUnavailable`."""
        offer = self._offers.get(server)
        if offer is None:
            raise UnknownServer(f"no MCP server is called {server!r}; there are: {', '.join(self._offers) or 'none'}")
        if offer.tools is None:
            problem = offer.status().problem or "has not started yet"
            raise McpUnavailable(f"the tools of MCP server {server} are not known, since it {problem}")
        return offer.tools

    def named(self, names: Iterable[str]) -> tuple[BaseTool, ...]:
        """The tools that an agent names: a server's name stands for all of its tools, `SERVER__TOOL` for one.

        Each tool once, in the order of the names. Raises `UnknownServer`, `McpUnavailable`, also where the server does
        not offer the tool.
        """
        found: dict[str, BaseTool] = {}
        for name in names:
            server, one, _ = name.partition(OF_SERVER)
            tools = {tool.name: tool for tool in self.tools(server)}
            if one and name not in tools:
                raise McpUnavailable(f"MCP server {server} has no tool {name}; it has {', '.join(tools) or 'none'}")
            found |= {name: tools[name]} if one else tools
        return tuple(found.values())

    def left_out(self, server: str) -> tuple[str, ...]:
        """Which of the server's tools are not offered, and why."""
        return self._offers[server].left_out

    def status(self) -> tuple[McpStatus, ...]:
        return tuple(offer.status() for offer in self._offers.values())
