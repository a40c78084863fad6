"""The HTTP surface's settings, and what every request of one surface can reach of them."""

import ipaddress
from typing import Final

import trio
from msgspec import Struct, field
from starlette.types import Scope

from orchestrator.policy.checks import require

LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost."})

_KEY: Final = "headrace.surface"


class HttpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the daemon listens and what it puts up with. Raises `InvalidLimits`.

    `allowed_hosts` are further names under which it may be asked for while it listens on loopback, such as that of a
    proxy before it. `connections` bounds the open connections: more wait unaccepted in the `backlog`. A connection
    whose next request is not whole (head only) within `idle_seconds` is closed. A JSON body must be whole within
    `body_seconds`; a streamed one may not pause for longer. A client that takes nothing of its stream for
    `stalled_seconds` is cut off. At the end, handlers have `grace_seconds`.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    allowed_hosts: tuple[str, ...] = ()
    backlog: int = 512
    connections: int = 4_096
    header_bytes: int = 32 * 1024
    body_bytes: int = 32 * 1024 * 1024
    idle_seconds: float = 30.0
    body_seconds: float = 60.0
    heartbeat_seconds: float = 15.0
    stalled_seconds: float = 60.0
    grace_seconds: float = 5.0

    def __post_init__(self) -> None:
        require("http.port", self.port, at_least=0, at_most=65_535)
        for name in ("backlog", "connections", "header_bytes", "body_bytes"):
            require(f"http.{name}", getattr(self, name), at_least=1)
        for name in ("idle_seconds", "body_seconds", "heartbeat_seconds", "stalled_seconds"):
            require(f"http.{name}", getattr(self, name), at_least=0.01, at_most=86_400)
        require("http.grace_seconds", self.grace_seconds, at_least=0, at_most=86_400)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this machine and is reachable from nowhere else."""
    if host.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Surface(Struct, frozen=True):
    """One surface: its settings, and `closing`, which is set once it ends and streams must end too."""

    config: HttpConfig = field(default_factory=HttpConfig)
    closing: trio.Event = field(default_factory=trio.Event)


def attach(scope: Scope, surface: Surface) -> None:
    """Makes the surface known to all that handles this request."""
    scope[_KEY] = surface


def surface_of(scope: Scope) -> Surface:
    """The surface that this request came to."""
    surface: Surface = scope[_KEY]
    return surface
