"""A span that has ended, as data. Times in seconds since the epoch."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from orchestrator.telemetry.context import TraceContext

Value = str | int | float | bool | tuple[str, ...]


class Span(Struct, frozen=True, kw_only=True):
    """`context` is its own, `parent` the span id that it is below, empty for none. `error` names what went wrong.

    `remote` says that the parent is another process's. `events` are names and times within it.
    """

    name: str
    context: TraceContext
    start: float
    end: float
    parent: str = ""
    remote: bool = False
    kind: Literal["internal", "client", "server"] = "internal"
    attributes: Mapping[str, Value | None] = {}
    error: str = ""
    events: tuple[tuple[str, float], ...] = ()


Emit = Callable[[Span], None]
"""Takes a span: fast, and it never raises."""
