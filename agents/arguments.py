"""A tool's parameters as one strict struct: its JSON schema for the model, and its decoder of what the model wrote.

Arguments are the model's own JSON text. Nothing is repaired: no string becomes a number, nothing unknown is dropped,
at no depth. What does not fit is answered with the reason and never run. (One convention of the wire is honoured: an
empty text means an empty object.)
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from agents.argument_text import BadArguments, bad_arguments, check_text, raw_object, why_refused
from agents.context import ToolContext
from agents.errors import HeadraceError
from agents.unknown_keys import unknown_key

__all__ = ["BadArguments", "InvalidTool", "decode_arguments", "parameters_of", "schema_of", "struct_of"]

Field = tuple[str, Any] | tuple[str, Any, Any]
"""A parameter: its name, its type, and its default where it has one."""


class InvalidTool(HeadraceError):
    """The function cannot be a tool; the message says what is missing."""


def decode_arguments(tool: str, arguments: str, parameters: type[msgspec.Struct]) -> dict[str, object]:
    """The arguments by parameter name, in the parameters' own types; raises `BadArguments`."""
    text = check_text(tool, arguments)
    try:
        decoded = msgspec.json.decode(text, type=parameters)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise bad_arguments(tool, why_refused(text, error)) from error
    unknown = unknown_key(raw_object(tool, text), decoded)
    if unknown is not None:
        raise bad_arguments(tool, unknown)
    return {field: getattr(decoded, field) for field in decoded.__struct_fields__}


def schema_of(parameters: type[msgspec.Struct], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """The JSON schema of the parameters, as a provider is sent it. No object in it takes keys that it does not name."""
    ((root,), components) = msgspec.json.schema_components([parameters])
    for component in components.values():
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    schema: dict[str, Any] = components.pop(root["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    for field in msgspec.structs.fields(parameters):
        if field.default_factory is not msgspec.NODEFAULT:
            schema["properties"][field.encode_name].setdefault("default", _shown_default(field))
    for name, text in descriptions.items():
        if name in schema["properties"]:
            schema["properties"][name] = {"description": text, **schema["properties"][name]}
    if components:
        schema["$defs"] = components
    return schema


def parameters_of(function: Callable[..., object], name: str) -> tuple[type[msgspec.Struct], str | None]:
    """The function's parameters as a struct, and which of them is its `ToolContext`. Raises `InvalidTool`."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidTool(f"tool {name}: {error}") from error
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidTool(f"tool {name}: a generator has no one value")
    fields: list[Field] = []
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
            fields.append((parameter.name, kind, _default(parameter.default)))
    return struct_of(name, fields), context_name


def struct_of(name: str, fields: list[Field]) -> type[msgspec.Struct]:
    """A strict struct of these (name, type) and (name, type, default). Raises `InvalidTool`."""
    try:
        struct = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(struct)
        msgspec.json.Decoder(struct)
    except TypeError as error:
        raise InvalidTool(f"tool {name}: a parameter's type cannot come from JSON: {error}") from error
    return struct


def _shown_default(field: msgspec.structs.FieldInfo) -> Any:
    try:
        return msgspec.to_builtins(field.default_factory(), str_keys=True)
    except TypeError as error:
        raise InvalidTool(f"the default of parameter {field.name} cannot be shown as JSON: {error}") from error


def _default(value: Any) -> Any:
    """The default, a fresh one for each call where a call could change it."""
    changeable = isinstance(value, list | dict | set | msgspec.Struct) or dataclasses.is_dataclass(value)
    if not changeable or isinstance(value, type):
        return value
    return msgspec.field(default_factory=lambda: copy.deepcopy(value))
