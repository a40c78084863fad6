"""`[tools.NAME]` as it is written in the file: a function, a command, an MCP server, an agent, or a question to people.

One of five keys says which it is; the other keys are settings, and each kind has its own.
"""

import re
from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final, Literal

from msgspec import Struct

from agents.approval_rule import read_approval
from agents.errors import InvalidLimits
from orchestrator.config.agent_tables import BudgetTable
from orchestrator.config.backend_tables import NO_KEYS
from orchestrator.config.named import check_named
from orchestrator.config.numbers import Count, NotNegative, Positive
from orchestrator.config.words import said_keys

ToolKind = Literal["function", "command", "mcp", "agent", "ask"]
KINDS: Final[tuple[ToolKind, ...]] = ("function", "command", "mcp", "agent", "ask")

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS: Final = re.compile(r"https?://[^/@?#\s]+(/[^@#\s]*)?")

_CALLED: Final = frozenset({"timeout", "concurrency", "idempotent", "read_only", "approval", "expires_in"})
_PROCESS: Final = frozenset({"cwd", "env", "pass_env"})
SETTINGS: Final[Mapping[ToolKind, Set[str]]] = {
    "function": _CALLED | {"description", "grace"},
    "command": _CALLED | _PROCESS | {"description", "grace", "parameters"},
    "mcp": _CALLED | _PROCESS | {"start_timeout", "only", "headers", "api_key_env", "api_key_file"},
    "agent": {"description", "timeout", "concurrency", "grace", "approval", "expires_in", "budget", "depth", "width"},
    "ask": {"description", "expires_in"},
}
"""The settings that each kind of tool has."""


class ToolTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool: see `agents.tools.BaseTool` for the settings that all kinds share. None is not said.

    `function` is `package.module:name`, found from the file's folder as well. `command` is a program and its fixed
    arguments, started for each call. `mcp` is the address of an MCP server, or the program and arguments that start
    one; the tool NAME stands for all its tools, which are called `NAME__TOOL`, or for those named in `only`. `agent`
    is an agent that does what it is asked as a run of its own, within `budget`; `depth` bounds how far such runs nest,
    `width` how many one run starts. `ask = true` asks people.

    Programs have the environment `env` and, by their names, the daemon's own variables in `pass_env`. They work in
    `cwd`; it is relative to the file's folder, which it is if it is not said. `idempotent` and `read_only` are true or
    false, for an MCP server also the server's names of the tools that are.
    """

    REFUSED: ClassVar[Mapping[str, str]] = {
        "url": 'an MCP server\'s address is written as `mcp = "https://..."`',
        "api_key": NO_KEYS,
        "person": "a tool that asks people has `ask = true`",
    }

    function: str | None = None
    command: tuple[str, ...] | None = None
    mcp: str | tuple[str, ...] | None = None
    agent: str | None = None
    ask: bool | None = None

    description: str | None = None
    timeout: Positive | None = None
    start_timeout: Positive | None = None
    concurrency: Count | None = None
    idempotent: bool | tuple[str, ...] | None = None
    read_only: bool | tuple[str, ...] | None = None
    grace: NotNegative | None = None
    approval: str | None = None
    expires_in: Positive | None = None
    parameters: dict[str, Any] = {}
    cwd: str | None = None
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    api_key_env: str | None = None
    api_key_file: str | None = None
    budget: BudgetTable = BudgetTable()
    depth: Count | None = None
    width: Count | None = None

    def __post_init__(self) -> None:
        said = [kind for kind in KINDS if getattr(self, kind) is not None]
        if not said:
            raise InvalidLimits("", f"says not what it is; it needs one of {', '.join(KINDS)}")
        if len(said) > 1:
            raise InvalidLimits(said[1], f"a tool is one thing: give this or {said[0]}, not both")
        self._check_settings(said[0])
        self._check_kind()
        self._check_environment()
        if self.approval is not None:
            read_approval(self.approval)

    @property
    def kind(self) -> ToolKind:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def what(self) -> str:
        """What it is, in a few words: the function, the program, the address, the agent; people."""
        if self.ask is not None:
            return "people"
        value = getattr(self, self.kind)
        return str(value if isinstance(value, str) else value[0])

    def _check_settings(self, kind: ToolKind) -> None:
        for key in said_keys(self):
            if key not in SETTINGS[kind] and key not in KINDS:
                having = " and ".join(other for other in KINDS if key in SETTINGS[other])
                raise InvalidLimits(key, f"is for tools with {having}, and this one has {kind}")
        for key in ("idempotent", "read_only"):
            if kind != "mcp" and isinstance(getattr(self, key), tuple):
                raise InvalidLimits(key, "must be true or false; names of tools are for MCP servers")
        asks = kind in ("ask", "function") or self.approval not in (None, "never")
        if self.expires_in is not None and not asks:
            raise InvalidLimits("expires_in", "says when an approval expires, and approval is not asked for here")

    def _check_kind(self) -> None:
        if self.function is not None:
            check_named(self.function, "function")
        if isinstance(self.mcp, str):
            if not _ADDRESS.fullmatch(self.mcp):
                # not quoted: it may hold a password
                what = "must be an address as https://host/path without user and password, or an array: a program and"
                raise InvalidLimits("mcp", f"{what} its arguments")
            for key in _PROCESS & said_keys(self).keys():
                raise InvalidLimits(key, "is for programs, and this MCP server has an address")
        elif self.mcp is not None:
            for key in ("headers", "api_key_env", "api_key_file"):
                if getattr(self, key):
                    raise InvalidLimits(key, "is for addresses, and this MCP server is a program")
        for key in ("command", "mcp"):
            program = getattr(self, key)
            if isinstance(program, tuple) and not (program and program[0].strip()):
                raise InvalidLimits(key, 'must begin with a program, as ["program", "argument"]')
        if self.ask is False:
            raise InvalidLimits("ask", "can only be true; leave the table out if nobody is to be asked")

    def _check_environment(self) -> None:
        for key, names in (("env", tuple(self.env)), ("pass_env", self.pass_env)):
            if not all(map(_VARIABLE.fullmatch, names)):
                raise InvalidLimits(key, "must have names of environment variables: letters, digits and _")
        if self.api_key_env is not None and self.api_key_file is not None:
            raise InvalidLimits("api_key_file", "give it or api_key_env, not both")
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise InvalidLimits("api_key_env", "must be the name of an environment variable, not the key itself")
