"""What every tool is to an agent, and functions as tools.

A tool has a spec that the model sees, decodes the model's arguments strictly (see `agents.arguments`), and is bound to
them and to the context of one call. A function's schema comes from its signature, its description from its docstring.

Coroutine functions run as they are. Plain functions run in threads, which cannot be stopped from outside: one that
ignores cancellation is abandoned after `grace` seconds, and its effect is unknown from then on.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import msgspec
import trio

from agents.approval_rule import TOOL, Approval, ApprovalRule, read_approval
from agents.arguments import BadArguments, InvalidTool, decode_arguments, parameters_of, schema_of
from agents.context import ToolContext
from agents.docstring import parse_docstring
from agents.errors import InvalidLimits
from agents.messages import ToolSpec

__all__ = [
    "DEFAULT_GRACE",
    "BadArguments",
    "BaseTool",
    "EffectUnknown",
    "InvalidTool",
    "Kind",
    "Tool",
    "ToolError",
    "call_async",
    "parse_docstring",
    "render",
    "tool",
]

DEFAULT_GRACE: Final = 5.0
"""Seconds that a tool's work gets to end after it was cancelled."""

LADDER_SECONDS: Final = 10.0
"""How much longer than its grace a call may take to end whose work is elsewhere: a process, a server, a child run."""

Kind = Literal["function", "thread", "command", "mcp", "agent", "person"]
"""What makes the call: a coroutine, a thread, a process, an MCP server, a child run, a person."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ToolError(Exception):
    """Raised by a tool to answer the model with exactly this message."""


class EffectUnknown(Exception):
    """Raised by a tool that lost sight of its call after it had begun; the message says why, as part of a sentence."""


class BaseTool(ABC):
    """Something that an agent may call.

    `timeout` is in seconds of running, None for none but the run's own. `concurrency` bounds how many calls run at
    once, over all runs. `idempotent` says that repeating a call with the same key does nothing more, `read_only` that
    it changes nothing outside: a call that is neither and is cut off leaves an unknown effect. `grace` is how many
    seconds a call gets to end after it was cancelled. `approval` says which calls a person must approve first: "never",
    "always", or a rule (see `agents.approval_rule`); a request for approval, or a question, expires after `expires_in`
    seconds, None for never. `blocking` calls are made in a thread, others give an awaitable.

    Raises `InvalidTool` for a name that no provider takes, `InvalidLimits` for settings that make no sense.
    """

    __slots__ = (
        "approval",
        "blocking",
        "expires_in",
        "grace",
        "idempotent",
        "kind",
        "limiter",
        "read_only",
        "spec",
        "timeout",
    )

    def __init__(
        self,
        spec: ToolSpec,
        *,
        kind: Kind,
        blocking: bool = False,
        timeout: float | None = None,
        concurrency: int | None = None,
        idempotent: bool = False,
        read_only: bool = False,
        grace: float = DEFAULT_GRACE,
        approval: Approval | str = "never",
        expires_in: float | None = None,
    ) -> None:
        for field, seconds in (("timeout", timeout), ("expires_in", expires_in)):
            if seconds is not None and not seconds > 0:
                raise InvalidLimits(field, f"more than 0 seconds, not {seconds!r}")
        if concurrency is not None and concurrency < 1:
            raise InvalidLimits("concurrency", f"at least 1, not {concurrency!r}")
        if not grace >= 0:
            raise InvalidLimits("grace", f"0 seconds or more, not {grace!r}")
        if not _NAME.fullmatch(spec.name):
            raise InvalidTool(f"{spec.name!r} is no name for a tool: letters, digits, _ and -, at most 64")
        self.spec = spec
        self.kind: Kind = kind
        self.blocking = blocking
        self.timeout = timeout
        self.idempotent = idempotent
        self.read_only = read_only
        self.grace = grace
        self.limiter = None if concurrency is None else trio.CapacityLimiter(concurrency)
        self.approval: Approval = read_approval(approval) if isinstance(approval, str) else approval
        self.expires_in = expires_in
        self._check_rule()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def repeatable(self) -> bool:
        """Whether a call that was cut off may simply be made again."""
        return self.idempotent or self.read_only

    @property
    def patience(self) -> float:
        """Seconds after which a call that was cancelled is abandoned: longer than its grace where others get that."""
        return self.grace if self.kind in ("function", "thread") else self.grace + LADDER_SECONDS

    def why_ask(self, arguments: Mapping[str, object]) -> str:
        """Why a person must approve a call with these decoded arguments: "always" or the rule; empty if none must."""
        if isinstance(self.approval, ApprovalRule):
            return self.approval.text if self.approval.asks(self.name, arguments) else ""
        return "always" if self.approval == "always" else ""

    @abstractmethod
    def decode(self, arguments: str) -> dict[str, object]:
        """The arguments that the model wrote, by parameter name; raises `BadArguments` with the reason."""

    @abstractmethod
    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call, ready to be made with decoded arguments: a value if `blocking`, else an awaitable."""

    def _check_rule(self) -> None:
        if not isinstance(self.approval, ApprovalRule) or self.spec.parameters.get("additionalProperties") is not False:
            return
        known = {TOOL, *self.spec.parameters.get("properties", ())}
        unknown = sorted(self.approval.names - known)
        if unknown:
            message = f"the rule looks at {unknown[0]!r}, which {self.name} does not take; it takes"
            raise InvalidLimits("approval", f"{message} {', '.join(sorted(known - {TOOL})) or 'nothing'}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.kind})>"


class Tool(BaseTool):
    """One function that an agent may call; see `BaseTool` for its settings. Raises `InvalidTool`, `InvalidLimits`."""

    __slots__ = ("_arguments", "_context_name", "function")

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        concurrency: int | None = None,
        idempotent: bool = False,
        read_only: bool = False,
        grace: float = DEFAULT_GRACE,
        approval: Approval | str = "never",
        expires_in: float | None = None,
    ) -> None:
        self.function = function
        name = name or str(getattr(function, "__name__", ""))
        summary, descriptions = parse_docstring(inspect.getdoc(function) or "")
        self._arguments, self._context_name = parameters_of(function, name)
        blocking = not inspect.iscoroutinefunction(function)
        super().__init__(
            ToolSpec(name, summary if description is None else description, schema_of(self._arguments, descriptions)),
            kind="thread" if blocking else "function",
            blocking=blocking,
            timeout=timeout,
            concurrency=concurrency,
            idempotent=idempotent,
            read_only=read_only,
            grace=grace,
            approval=approval,
            expires_in=expires_in,
        )

    def decode(self, arguments: str) -> dict[str, object]:
        return decode_arguments(self.name, arguments, self._arguments)

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call, ready to be made: for a coroutine function, calling it gives the awaitable."""
        named = dict(arguments)
        if self._context_name is not None:
            named[self._context_name] = context
        return lambda: self.function(**named)


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    concurrency: int | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    grace: float = DEFAULT_GRACE,
    approval: Approval | str = "never",
    expires_in: float | None = None,
) -> Callable[[Callable[..., object]], Tool]:
    """`Tool` as a decorator."""
    return lambda function: Tool(
        function,
        name=name,
        description=description,
        timeout=timeout,
        concurrency=concurrency,
        idempotent=idempotent,
        read_only=read_only,
        grace=grace,
        approval=approval,
        expires_in=expires_in,
    )


def render(value: object) -> str:
    """A tool's value as the model reads it: text as it is, everything else as JSON. Raises `ToolError`."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ToolError(f"the tool's value cannot be written as JSON: {error}") from error


async def call_async(call: Callable[[], object]) -> object:
    """Makes a bound call to a coroutine function."""
    awaitable = call()
    assert isinstance(awaitable, Awaitable)
    return await awaitable
