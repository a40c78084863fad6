"""What is configured of one MCP server, and what is seen of it. Needs nothing of the SDK."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from msgspec import Struct

from agents.errors import HeadraceError, InvalidLimits

_NAME: Final = re.compile(r"[a-zA-Z0-9-]+(_[a-zA-Z0-9-]+)*")
LONGEST_NAME: Final = 32
"""Characters of a server's name; what is left of 64 is its tools'."""

McpState = Literal["starting", "ready", "waiting", "closed"]
"""`waiting`: it failed, and is started again after a while."""


class McpNotInstalled(HeadraceError):
    """MCP servers are configured, but the SDK is not installed."""


class UnknownServer(HeadraceError):
    """No MCP server of this name is configured."""


class McpUnavailable(HeadraceError):
    """The server has never said which tools it has, so an agent that needs them cannot run."""

    blame = "provider"
    kind: ClassVar[str] = "unavailable"


class McpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server: a `command` that speaks on its standard streams, or a `url` for streamable HTTP.

    A command inherits HOME, LOGNAME, PATH, SHELL, TERM and USER, and gets `env` besides. `headers` go with every HTTP
    request. `only` names the tools that are offered, by the server's own names; empty means all of them.

    `timeout` is in seconds for a call, `start_timeout` for the server to start, to connect and to list its tools.
    `concurrency` bounds the calls that run at once on the server. What a server says of its tools' effects is not
    trusted: `idempotent` and `read_only` are the operator's word, for all its tools (True) or for those named.
    `approval` and `expires_in` are as for every tool, and hold for all of the server's.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    only: tuple[str, ...] = ()
    timeout: float = 60.0
    start_timeout: float = 20.0
    concurrency: int = 8
    idempotent: bool | tuple[str, ...] = False
    read_only: bool | tuple[str, ...] = False
    approval: str = "never"
    expires_in: float | None = None

    def __post_init__(self) -> None:
        if len(self.name) > LONGEST_NAME or not _NAME.fullmatch(self.name):
            what = f"letters, digits, - and single _ between them, at most {LONGEST_NAME}, not {self.name!r}"
            raise InvalidLimits("name", what)
        if bool(self.command) == bool(self.url):
            raise InvalidLimits("command", "a server has either a command or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise InvalidLimits("url", "must begin with http:// or https://")
        for field, seconds in (("timeout", self.timeout), ("start_timeout", self.start_timeout)):
            if not seconds > 0:
                raise InvalidLimits(field, f"more than 0 seconds, not {seconds!r}")
        if self.concurrency < 1:
            raise InvalidLimits("concurrency", f"at least 1, not {self.concurrency!r}")

    def declares(self, said: bool | tuple[str, ...], tool: str) -> bool:
        """Whether `said`, which is `idempotent` or `read_only`, holds for this tool of the server."""
        return said if isinstance(said, bool) else tool in said

    def __repr__(self) -> str:
        return f"<McpConfig {self.name}>"  # env and headers hold secrets


class McpStatus(Struct, frozen=True, kw_only=True):
    """A server at one moment. `next_try` is in seconds from now, None unless it is `waiting`."""

    name: str
    state: McpState
    tools: tuple[str, ...]
    starts: int
    problem: str
    next_try: float | None = None
