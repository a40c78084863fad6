"""The tools of `[tools.NAME]` that the file says all of: functions, which are imported, commands, agents, questions."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agents.delegate import AgentTool
from agents.errors import InvalidLimits
from agents.person import PersonTool
from agents.tools import BaseTool, InvalidTool, Tool
from orchestrator.config.named import find_named
from orchestrator.config.tool_table import ToolTable
from orchestrator.tools.command import CommandTool
from orchestrator.tools.output import Blobs

_SHARED: Final = ("timeout", "concurrency", "idempotent", "read_only", "grace", "approval", "expires_in")


def make_tool(
    name: str,
    table: ToolTable,
    folder: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    blobs: Blobs | None = None,
) -> BaseTool | None:
    """The tool; None for an MCP server, since which tools it has is known when a run needs them.

    Paths are relative to `folder`. Raises `InvalidLimits`, which names the table's key.
    """
    if table.function is not None:
        return import_tool(name, table, folder)
    if table.command is not None:
        return _command(name, table, folder, environ, blobs)
    if table.agent is not None:
        bounds = {key: value for key in ("depth", "width") if (value := getattr(table, key)) is not None}
        return AgentTool(
            name,
            table.agent,
            description=table.description,
            limits=table.budget.limits(),
            **bounds,
            **_said(table),
        )
    if table.ask is not None:
        return PersonTool(name, description=table.description, expires_in=table.expires_in)
    return None


def import_tool(name: str, table: ToolTable, folder: Path) -> Tool:
    """The tool, its function imported from the environment or else from `folder`. Raises `InvalidLimits`.

    A function that is a `Tool` already keeps what it says of itself and the table does not.
    """
    assert table.function is not None
    found = find_named(table.function, folder, "function")
    own = found if isinstance(found, Tool) else None
    function = own.function if own is not None else found
    if not callable(function):
        raise InvalidLimits("function", f"{table.function} is no function")
    try:
        return _make(name, table, function, own)
    except InvalidTool as error:
        raise InvalidLimits("function", error.message) from None


def environment_of(table: ToolTable, environ: Mapping[str, str]) -> dict[str, str]:
    """What a program has besides the usual variables. Raises `InvalidLimits` where one to pass on is not set."""
    missing = next((name for name in table.pass_env if name not in environ), None)
    if missing is not None:
        raise InvalidLimits("pass_env", f"the environment variable {missing} is not set")
    return {**{name: environ[name] for name in table.pass_env}, **table.env}


def working_folder(table: ToolTable, folder: Path) -> Path:
    """Where a program works."""
    return folder if table.cwd is None else folder / Path(table.cwd).expanduser()


def _command(name: str, table: ToolTable, folder: Path, environ: Mapping[str, str], blobs: Blobs | None) -> CommandTool:
    assert table.command is not None
    try:
        return CommandTool(
            name,
            table.command,
            description=table.description or "",
            parameters=table.parameters,
            folder=working_folder(table, folder),
            environment=environment_of(table, environ),
            blobs=blobs,
            **_said(table),
        )
    except InvalidTool as error:
        raise InvalidLimits("parameters", error.message) from None


def _said(table: ToolTable) -> dict[str, Any]:
    """The settings of all called tools that the table has something to say of."""
    return {key: value for key in _SHARED if (value := getattr(table, key)) is not None}


def _make(name: str, table: ToolTable, function: Callable[..., object], own: Tool | None) -> Tool:
    settings: dict[str, Any] = {}
    if own is not None:
        settings = {key: getattr(own, key) for key in _SHARED if key != "concurrency"}
        settings["concurrency"] = None if own.limiter is None else int(own.limiter.total_tokens)
        settings["description"] = own.spec.description
    if table.description is not None:
        settings["description"] = table.description
    return Tool(function, name=name, **{**settings, **_said(table)})
