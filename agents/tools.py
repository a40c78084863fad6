"""Functions as tools: a schema from the signature, a description from the docstring, strict validation.

Arguments are the model's own JSON text. It is decoded strictly into the function's parameter types: no string becomes
a number, nothing unknown is dropped, nothing is repaired. What does not fit is answered with the reason and never run.
(One convention of the wire is honoured: an empty text means an empty object.)

Coroutine functions run as they are. Plain functions run in threads, which cannot be stopped from outside: one that
ignores cancellation is abandoned after `grace` seconds, and its effect is unknown from then on.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, get_type_hints

import msgspec
import trio

from agents.context import ToolContext
from agents.errors import HeadraceError, InvalidLimits
from agents.messages import ToolSpec

DEFAULT_GRACE: Final = 5.0
"""Seconds a blocking tool gets to end after it was cancelled."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECTION: Final = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT: Final = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


class ToolError(Exception):
    """Raised by a tool to answer the model with exactly this message."""


class BadArguments(HeadraceError):
    """The model's arguments do not fit the tool's parameters; the message says where and why, for the model."""


class InvalidTool(HeadraceError):
    """The function cannot be a tool; the message says what is missing."""


class Tool:
    """One function that an agent may call.

    `timeout` is in seconds of running, None for none but the run's own. `concurrency` bounds how many calls run at
    once, over all runs. `idempotent` says that repeating a call with the same key does nothing more, `read_only` that
    it changes nothing outside: a call that is neither and is cut off leaves an unknown effect.
    """

    __slots__ = (
        "_arguments",
        "_context_name",
        "blocking",
        "function",
        "grace",
        "idempotent",
        "limiter",
        "read_only",
        "spec",
        "timeout",
    )

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
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise InvalidLimits("timeout", f"more than 0 seconds, not {timeout!r}")
        if concurrency is not None and concurrency < 1:
            raise InvalidLimits("concurrency", f"at least 1, not {concurrency!r}")
        if not grace >= 0:
            raise InvalidLimits("grace", f"0 seconds or more, not {grace!r}")
        self.function = function
        self.timeout = timeout
        self.idempotent = idempotent
        self.read_only = read_only
        self.grace = grace
        self.blocking = not inspect.iscoroutinefunction(function)
        self.limiter = None if concurrency is None else trio.CapacityLimiter(concurrency)
        name = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(name):
            raise InvalidTool(f"{name!r} is no name for a tool: letters, digits, _ and -, at most 64")
        summary, arguments = parse_docstring(inspect.getdoc(function) or "")
        self._arguments, self._context_name = _argument_struct(function, name)
        self.spec = ToolSpec(name, summary if description is None else description, self._schema(arguments))

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def repeatable(self) -> bool:
        """Whether a call that was cut off may simply be made again."""
        return self.idempotent or self.read_only

    def decode(self, arguments: str) -> dict[str, object]:
        """The call's arguments by parameter name; raises `BadArguments`."""
        try:
            decoded = msgspec.json.decode(arguments if arguments.strip() else "{}", type=self._arguments)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise BadArguments(f"bad arguments for {self.name}: {error}") from error
        return {field: getattr(decoded, field) for field in decoded.__struct_fields__}

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call, ready to be made: for a coroutine function, calling it gives the awaitable."""
        named = dict(arguments)
        if self._context_name is not None:
            named[self._context_name] = context
        return lambda: self.function(**named)

    def _schema(self, descriptions: Mapping[str, str]) -> dict[str, Any]:
        (_, components) = msgspec.json.schema_components([self._arguments])
        schema: dict[str, Any] = components.pop(self._arguments.__name__)
        schema.pop("title", None)
        for name, text in descriptions.items():
            if name in schema["properties"]:
                schema["properties"][name] = {"description": text, **schema["properties"][name]}
        if components:
            schema["$defs"] = components
        return schema

    def __repr__(self) -> str:
        return f"<Tool {self.name}{' (in a thread)' if self.blocking else ''}>"


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    concurrency: int | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    grace: float = DEFAULT_GRACE,
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
    )


def render(value: object) -> str:
    """A tool's value as the model reads it: text as it is, everything else as JSON. Raises `ToolError`."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ToolError(f"the tool's value cannot be written as JSON: {error}") from error


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description before the first section, and what an `Args:` section says of each parameter."""
    summary: list[str] = []
    arguments: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, current = heading[1], ""
        elif not section:
            summary.append(line)
        elif section in {"Args", "Arguments", "Parameters"} and line.strip():
            depth = len(line) - len(line.lstrip())
            entry = _ARGUMENT.match(line.strip())
            if entry and (not current or depth <= indent):
                current, indent = entry[1], depth
                arguments[current] = entry[2]
            elif current:
                arguments[current] = f"{arguments[current]} {line.strip()}".strip()
    return "\n".join(summary).strip(), arguments


def _argument_struct(function: Callable[..., object], name: str) -> tuple[type[msgspec.Struct], str | None]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidTool(f"tool {name}: {error}") from error
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidTool(f"tool {name}: a generator has no one value")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context_name: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidTool(f"tool {name}: parameter {parameter.name} cannot be given by name")
        if parameter.name not in hints:
            raise InvalidTool(f"tool {name}: parameter {parameter.name} has no type")
        kind = hints[parameter.name]
        if kind is ToolContext:
            context_name = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            default: Any = parameter.default
            if isinstance(default, list | dict | set):
                default = msgspec.field(default_factory=default.copy)
            fields.append((parameter.name, kind, default))
    try:
        struct = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(struct)
        msgspec.json.Decoder(struct)
    except TypeError as error:
        raise InvalidTool(f"tool {name}: a parameter's type cannot come from JSON: {error}") from error
    return struct, context_name


async def call_async(call: Callable[[], object]) -> object:
    """Makes a bound call to a coroutine function."""
    awaitable = call()
    assert isinstance(awaitable, Awaitable)
    return await awaitable
