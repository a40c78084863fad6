"""What a worker makes of an agent that the daemon describes: its tools are made here, once for each configuration.

Functions, programs and MCP servers are those of the worker's machine, found from its working directory. A tool that
cannot be made here only keeps those runs from being driven here whose agents have it.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from agents.errors import HeadraceError, InvalidLimits
from agents.spec import AgentSpec
from agents.tools import BaseTool
from orchestrator.config.mcp_servers import mcp_servers
from orchestrator.config.problems import ConfigError
from orchestrator.config.reader import Reader
from orchestrator.config.schema import Config
from orchestrator.config.tool_table import ToolTable
from orchestrator.config.tools import make_tool
from orchestrator.tools.mcp import McpServers
from orchestrator.tools.mcp_names import OF_SERVER
from orchestrator.views.workers import AgentMaterial, ToolTables
from orchestrator.worker.link import Link

SERVERS_SECONDS: Final = 30.0
"""How long a run waits for an MCP server that has not been reached yet."""


class NoTool(HeadraceError):
    """An agent's tool cannot be made on this machine; the message says why."""


class Toolbox:
    """The tools of one digest. `users` is how many runs have agents with them."""

    def __init__(self, tables: ToolTables, environ: Mapping[str, str]) -> None:
        self.digest = tables.digest
        self.scope = trio.CancelScope()
        self.users = 0
        self.tools: dict[str, BaseTool] = {}
        self._problems: dict[str, str] = {}
        self._servers: dict[str, McpServers] = {}
        for name, table in tables.tools.items():
            try:
                self._add(name, table, environ)
            except HeadraceError as error:
                self._problems[name] = error.message

    def _add(self, name: str, said: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        reader = Reader()
        table = reader.read(said, ToolTable, ("tools", name))
        if table is None or reader.problems:
            raise ConfigError(reader.problems, "the daemon's configuration")
        config = Config(tools={name: table})
        try:
            made = make_tool(name, table, Path.cwd(), environ=environ)
        except InvalidLimits as error:
            raise NoTool(error.message) from error
        if made is None:
            self._servers[name] = McpServers(mcp_servers(config, environ))
        else:
            self.tools[name] = made

    async def run(self) -> None:
        """Keeps the MCP servers running until `scope` is cancelled."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                for servers in self._servers.values():
                    nursery.start_soon(servers.run)

    async def named(self, name: str) -> BaseTool:
        """The tool of this name. Raises `NoTool`, and what an MCP server's tools raise."""
        if name in self.tools:
            return self.tools[name]
        server = name.partition(OF_SERVER)[0]
        if server in self._servers:
            with trio.move_on_after(SERVERS_SECONDS):
                await self._servers[server].tried()
            return self._servers[server].named([name])[0]
        why = self._problems.get(name) or self._problems.get(server) or "the daemon's configuration does not have it"
        raise NoTool(f"tool {name} cannot be made on this machine: {why}")


class Materials:
    """Agents as this worker has them. `own` are tools that its process has already, by name; they go first.

    `digest` is that of the tools that the daemon has now.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        link: Link,
        *,
        own: Iterable[BaseTool] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._nursery = nursery
        self._link = link
        self._own = {tool.name: tool for tool in own}
        self._environ = environ
        self._lock = trio.Lock()
        self._box: Toolbox | None = None
        self.digest = ""

    @asynccontextmanager
    async def agent(self, material: AgentMaterial) -> AsyncGenerator[AgentSpec, None]:
        """The agent, whose tools are kept for as long as the block lasts. Raises `NoTool`, and as `Link.ask` does."""
        if all(name in self._own for name in material.tools):
            yield _spec(material, [self._own[name] for name in material.tools])
            return
        async with self._lock:
            box = await self._current()
            box.users += 1
        try:
            tools = [self._own.get(name) or await box.named(name) for name in material.tools]
            yield _spec(material, tools)
        finally:
            box.users -= 1
            self._let_go(box)

    async def _current(self) -> Toolbox:
        box = self._box
        if box is None or box.digest != self.digest:
            tables = await self._link.ask(ToolTables, "GET", "/api/workers/tools")
            self.digest = tables.digest
            self._box = made = Toolbox(tables, self._environ)
            self._nursery.start_soon(made.run)
            if box is not None:
                self._let_go(box)
            return made
        return box

    def _let_go(self, box: Toolbox) -> None:
        if box is not self._box and not box.users:
            box.scope.cancel()


def _spec(material: AgentMaterial, tools: Iterable[BaseTool]) -> AgentSpec:
    said: dict[str, Any] = {name: getattr(material, name) for name in AgentMaterial.__struct_fields__}
    return AgentSpec(**{**said, "tools": tuple(tools)})
