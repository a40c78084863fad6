"""Parameters as a configuration writes them, made into the strict struct that a model's arguments must fit.

A parameter is the name of a JSON type, or a table: `days = { type = "integer", minimum = 1, default = 3 }`. The words
are those of JSON Schema, since that is what the model is shown. A parameter without a default must be given, unless
it says `required = false`; then it is missing where the model did not give it.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from agents.arguments import InvalidTool, struct_of

TypeName = Literal["string", "integer", "number", "boolean", "array", "object"]
ItemName = Literal["string", "integer", "number", "boolean", "object"]

_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
}
_LISTS: Final[Mapping[str, Any]] = {
    "string": list[str],
    "integer": list[int],
    "number": list[float],
    "boolean": list[bool],
    "object": list[dict[str, Any]],
}


class Parameter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One parameter. Lengths are in characters of a string, or items of an array; `items` is for arrays only."""

    type: TypeName
    description: str = ""
    items: ItemName = "string"
    enum: tuple[str | int, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    required: bool = True
    default: Any = UNSET


def read_parameters(tool: str, written: Mapping[str, object]) -> dict[str, Parameter]:
    """The parameters as a configuration writes them. Raises `InvalidTool`, saying which of them is wrong and why."""
    read = {}
    for name, parameter in written.items():
        if not name.isidentifier() or name.startswith("_"):
            raise InvalidTool(
                f"tool {tool}: {name!r} is no name for a parameter: letters, digits and _, beginning with a letter"
            )
        table = {"type": parameter} if isinstance(parameter, str) else parameter
        try:
            read[name] = msgspec.convert(table, Parameter)
        except msgspec.ValidationError as error:
            raise InvalidTool(f"tool {tool}: parameter {name}: {error}") from error
    return read


def parameter_struct(tool: str, parameters: Mapping[str, Parameter]) -> type[Struct]:
    """A struct that exactly these parameters fit. Raises `InvalidTool`."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, parameter in parameters.items():
        kind = _type_of(tool, name, parameter)
        if parameter.default is not UNSET:
            fields.append((name, kind, _default(tool, name, parameter.default, kind)))
        elif parameter.required:
            fields.append((name, kind))
        else:
            fields.append((name, kind | UnsetType, UNSET))
    return struct_of(tool, fields)


def _type_of(tool: str, name: str, parameter: Parameter) -> Any:
    if parameter.enum:
        wanted = {"string": str, "integer": int}.get(parameter.type)
        if wanted is None or any(type(value) is not wanted for value in parameter.enum):
            raise InvalidTool(
                f"tool {tool}: parameter {name}: an enum has strings for a string, whole numbers for an integer"
            )
        return _described(Literal[parameter.enum], parameter)
    kind: Any = _TYPES[parameter.type] if parameter.type != "array" else _LISTS[parameter.items]
    limits: dict[str, Any] = {
        "ge": parameter.minimum,
        "le": parameter.maximum,
        "min_length": parameter.min_length,
        "max_length": parameter.max_length,
        "pattern": parameter.pattern,
    }
    given = {word: limit for word, limit in limits.items() if limit is not None}
    if not given:
        return _described(kind, parameter)
    try:
        bounded: Any = Annotated[kind, Meta(**given)]
        msgspec.json.Decoder(bounded)
    except (TypeError, ValueError, re.error) as error:
        raise InvalidTool(f"tool {tool}: parameter {name}: {error}") from error
    return _described(bounded, parameter)


def _described(kind: Any, parameter: Parameter) -> Any:
    return Annotated[kind, Meta(description=parameter.description)] if parameter.description else kind


def _default(tool: str, name: str, default: object, kind: Any) -> Any:
    try:
        value = msgspec.convert(default, kind)
    except msgspec.ValidationError as error:
        raise InvalidTool(f"tool {tool}: parameter {name}: its default does not fit: {error}") from error
    if isinstance(value, list | dict):
        return msgspec.field(default_factory=value.copy)
    return value
