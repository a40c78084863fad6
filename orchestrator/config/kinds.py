"""What the types of the configuration's structs say: the keys a table may have, and values in words."""

import datetime
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct, inspect

from orchestrator.config.problems import choice


class Slot(Struct, frozen=True):
    """Where the value of a key goes: to the field `name`, of the struct in the field `inside` unless that is empty."""

    name: str
    inside: str
    field: inspect.Field


@cache
def struct_type(cls: type[Struct]) -> inspect.StructType:
    """What msgspec knows of a struct."""
    kind = inspect.type_info(cls)
    assert isinstance(kind, inspect.StructType)
    return kind


@cache
def slots_of(cls: type[Struct]) -> Mapping[str, Slot]:
    """The keys that a table of this struct may have, and where their values go."""
    slots: dict[str, Slot] = {}
    for field in struct_type(cls).fields:
        marks = marks_of(field)
        if "flat" in marks:
            inner = struct_type(flat_class(cls, field.name)).fields
            found = [Slot(part.name, field.name, part) for part in inner if part.name not in marks["flat"]]
        else:
            found = [] if marks.get("hidden") else [Slot(field.name, "", field)]
        for slot in found:
            assert slot.name not in slots, f"{cls.__name__} has two meanings for {slot.name}"
            slots[slot.name] = slot
    return slots


@cache
def flat_class(cls: type[Struct], name: str) -> type[Struct]:
    """The struct behind a field marked flat."""
    kind = next(field.type for field in struct_type(cls).fields if field.name == name)
    inner = kind.type if isinstance(kind, inspect.Metadata) else kind
    assert isinstance(inner, inspect.StructType)
    return inner.cls


def marks_of(field: inspect.Field) -> Mapping[str, Any]:
    """The marks of a field, see `reader.py`."""
    return (field.type.extra or {}) if isinstance(field.type, inspect.Metadata) else {}


def describe(kind: inspect.Type) -> str:
    """A type in words."""
    if isinstance(kind, inspect.Metadata):
        return describe(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(describe(part) for part in kind.types if not isinstance(part, inspect.NoneType))
    if isinstance(kind, inspect.LiteralType):
        return f"one of {choice(shown(value) for value in kind.values)}"
    return next((words for types, words, _ in _WORDS if isinstance(kind, types)), "a value")


def fits(value: object, kind: inspect.Type) -> bool:
    """Whether a parsed value is of the kind that a type wants; what is inside it is not looked at."""
    if isinstance(kind, inspect.Metadata):
        return fits(value, kind.type)
    if isinstance(kind, inspect.AnyType):
        return True
    if isinstance(value, datetime.datetime):
        return False
    accepted = next((accepted for types, _, accepted in _WORDS if isinstance(kind, types)), ())
    return isinstance(value, accepted) and (isinstance(kind, inspect.BoolType) or not isinstance(value, bool))


_WORDS: Final[Sequence[tuple[tuple[type, ...], str, tuple[type, ...]]]] = (
    ((inspect.BoolType,), "true or false", (bool,)),
    ((inspect.IntType,), "a whole number", (int,)),
    ((inspect.FloatType, inspect.DecimalType), "a number", (int, float)),
    ((inspect.StrType,), "text", (str,)),
    ((inspect.LiteralType,), "a word", (str,)),
    ((inspect.DateType,), "a date", (datetime.date,)),
    ((inspect.StructType, inspect.DictType), "a table", (dict,)),
    ((inspect.VarTupleType, inspect.TupleType, inspect.ListType), "an array", (list,)),
)


def what(value: object) -> str:
    """What was found, without showing it: it may be a secret in the wrong place."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, datetime.datetime | datetime.time):
        return "a time"
    return next((words for _, words, accepted in _WORDS if isinstance(value, accepted)), "this")


def shown(value: object) -> str:
    """A word from the file, quoted and cut to a readable length."""
    text = str(value)
    return f'"{text}"' if len(text) <= 64 else f'"{text[:63]}…"'
