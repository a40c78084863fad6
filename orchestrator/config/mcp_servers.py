"""The MCP servers of `[tools.NAME]`, as the room of MCP has them. Nothing connects or starts."""

import os
from collections.abc import Mapping
from typing import Any, Final

from agents.errors import InvalidLimits
from orchestrator.backends.secret import load_key
from orchestrator.config.find import beside, folder
from orchestrator.config.problems import ConfigError, Problem, show_path, words_of
from orchestrator.config.schema import Config
from orchestrator.config.tool_table import ToolTable
from orchestrator.config.tools import environment_of, working_folder
from orchestrator.tools.mcp_config import McpConfig

_SETTINGS: Final = (
    "timeout",
    "start_timeout",
    "concurrency",
    "idempotent",
    "read_only",
    "approval",
    "expires_in",
)


def mcp_servers(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[McpConfig, ...]:
    """All servers. Raises `ConfigError` with all that is wrong with them, keys that are not there among it."""
    servers: list[McpConfig] = []
    problems: list[Problem] = []
    for name, table in config.tools.items():
        if table.mcp is not None:
            try:
                servers.append(_server(config, name, table, environ))
            except InvalidLimits as error:
                field = "mcp" if error.field in ("url", "command", "name") else error.field.rpartition(".")[2]
                problems.append(Problem(show_path(("tools", name, field)), words_of(error)))
    if problems:
        raise ConfigError(problems, config.source)
    return tuple(servers)


def _server(config: Config, name: str, table: ToolTable, environ: Mapping[str, str]) -> McpConfig:
    said: dict[str, Any] = {key: value for key in _SETTINGS if (value := getattr(table, key)) is not None}
    if isinstance(table.mcp, str):
        said |= {"url": table.mcp, "headers": _headers(config, name, table, environ)}
    else:
        assert table.mcp is not None
        said |= {
            "command": table.mcp,
            "env": environment_of(table, environ),
            "cwd": str(working_folder(table, folder(config))),
        }
    return McpConfig(name=name, only=table.only, **said)


def _headers(config: Config, name: str, table: ToolTable, environ: Mapping[str, str]) -> dict[str, str]:
    file = None if table.api_key_file is None else str(beside(config, table.api_key_file))
    key = load_key(f"tools.{name}", env=table.api_key_env, file=file, environ=environ)
    return table.headers if key is None else {**table.headers, "Authorization": f"Bearer {key.reveal()}"}
