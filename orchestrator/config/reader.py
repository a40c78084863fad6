"""Reads parsed TOML into frozen structs, and finds everything that is wrong with it, not only the first thing.

The types of the structs are the schema; nothing is converted but whole numbers where any number will do. Three marks
in a field's `msgspec.Meta(extra=...)` say what a type cannot:

- `{"flat": names}`: the keys of that struct are written in the table around it, without its fields `names`.
- `{"hidden": True}`: the field is not for files.
- `{"finite": True}`: a number that must not be infinite. NaN is refused everywhere.

A struct's `REFUSED`, if it has one, maps keys that people will try to the reason why there is no such key. A struct
that raises `InvalidLimits` when it is made names the field; the path to it is put in front.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from msgspec import Struct, inspect

from agents.errors import InvalidLimits
from orchestrator.config.kinds import describe, fits, flat_class, shown, slots_of, struct_type, what
from orchestrator.config.problems import Path, Problem, choice, nearest, show_path, words_of

T = TypeVar("T", bound=Struct)

_BAD: Final = object()
"""What is read where something was wrong; the problem has been noted."""

_LARGE: Final = 2**63
"""TOML promises whole numbers up to this size."""

_BOUNDS: Final[Sequence[tuple[str, str, Callable[[float, float], bool]]]] = (
    ("gt", "above", operator.gt),
    ("ge", "at least", operator.ge),
    ("le", "at most", operator.le),
    ("lt", "below", operator.lt),
)


class Reader:
    """Reads one document. `problems` is what was wrong so far."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, path: Path, message: str) -> Any:
        """Notes a problem."""
        self.problems.append(Problem(show_path(path), message))
        return _BAD

    def read(self, value: object, kind: type[T], path: Path = ()) -> T | None:
        """The struct that a table means; None if anything in it is wrong."""
        read = self._struct(value, struct_type(kind), path)
        return read if isinstance(read, kind) else None

    def _read(self, value: object, kind: inspect.Type, path: Path) -> Any:
        if isinstance(kind, inspect.Metadata):
            read = self._read(value, kind.type, path)
            if (kind.extra or {}).get("finite") and isinstance(read, float) and math.isinf(read):
                return self.wrong(path, "must be a finite number")
            return read
        if isinstance(kind, inspect.UnionType):
            return self._union(value, kind, path)
        if isinstance(kind, inspect.StructType):
            return self._struct(value, struct_type(kind.cls), path)
        if not fits(value, kind):
            return self.wrong(path, f"must be {describe(kind)}, not {what(value)}")
        if isinstance(kind, inspect.DictType):
            assert isinstance(value, dict)
            table = {key: self._read(item, kind.value_type, (*path, key)) for key, item in value.items()}
            return _BAD if any(item is _BAD for item in table.values()) else table
        if isinstance(kind, inspect.VarTupleType | inspect.ListType):
            assert isinstance(value, list)
            if len(value) < (kind.min_length or 0):
                return self.wrong(path, f"must have {kind.min_length} or more")
            return self._items(value, [kind.item_type] * len(value), path)
        if isinstance(kind, inspect.TupleType):
            assert isinstance(value, list)
            if len(value) != len(kind.item_types):
                return self.wrong(path, f"must be {len(kind.item_types)} values, not {len(value)}")
            return self._items(value, kind.item_types, path)
        return self._scalar(value, kind, path)

    def _items(self, values: Sequence[object], kinds: Sequence[inspect.Type], path: Path) -> Any:
        items = tuple(self._read(values[n], kinds[n], (*path, n)) for n in range(len(values)))
        return _BAD if any(item is _BAD for item in items) else items

    def _union(self, value: object, union: inspect.UnionType, path: Path) -> Any:
        kinds = [kind for kind in union.types if not isinstance(kind, inspect.NoneType)]
        tagged = [kind for kind in kinds if isinstance(kind, inspect.StructType) and kind.tag_field is not None]
        if len(tagged) > 1:
            return self._tagged(value, {str(kind.tag): kind for kind in tagged}, str(tagged[0].tag_field), path)
        fitting = next((kind for kind in kinds if fits(value, kind)), None)
        if fitting is None:
            return self.wrong(path, f"must be {' or '.join(map(describe, kinds))}, not {what(value)}")
        return self._read(value, fitting, path)

    def _tagged(self, value: object, kinds: Mapping[str, inspect.StructType], key: str, path: Path) -> Any:
        if not isinstance(value, dict):
            return self.wrong(path, f"must be a table, not {what(value)}")
        tag, valid = value.get(key), choice(f'"{name}"' for name in kinds)
        if tag is None:
            return self.wrong((*path, key), f"is missing; it is one of {valid}")
        if not isinstance(tag, str) or tag not in kinds:
            return self.wrong((*path, key), f"must be one of {valid}, not {shown(tag)}")
        return self._struct({name: item for name, item in value.items() if name != key}, kinds[tag], path)

    def _struct(self, value: object, struct: inspect.StructType, path: Path) -> Any:
        if not isinstance(value, dict):
            return self.wrong(path, f"must be a table, not {what(value)}")
        slots = slots_of(struct.cls)
        given: dict[str, dict[str, Any]] = {"": {}, **{slot.inside: {} for slot in slots.values()}}
        good = True
        for key, item in value.items():
            slot = slots.get(key)
            read = self._unknown(key, struct, path) if slot is None else self._read(item, slot.field.type, (*path, key))
            if slot is None or read is _BAD:
                good = False
            else:
                given[slot.inside][slot.name] = read
        misled = value.keys() & getattr(struct.cls, "REFUSED", {}).keys()
        for key, slot in slots.items():
            if slot.field.required and key not in value and not misled:
                good = False
                self.wrong((*path, key), f"is missing; it must be {describe(slot.field.type)}")
        return self._make(struct.cls, given, path) if good else _BAD

    def _make(self, cls: type[Struct], given: dict[str, dict[str, Any]], path: Path) -> Any:
        values = given.pop("")
        for inside, fields in given.items():
            values[inside] = self._try(flat_class(cls, inside), fields, path)
        return _BAD if any(value is _BAD for value in values.values()) else self._try(cls, values, path)

    def _try(self, cls: type[Struct], values: dict[str, Any], path: Path) -> Any:
        try:
            return cls(**values)
        except InvalidLimits as error:
            return self._refused(error, path, cls)

    def _refused(self, error: InvalidLimits, path: Path, cls: type[Struct]) -> Any:
        """Notes what a struct said of itself; its name for a field may begin with its room's own name for the table."""
        field, known = error.field, slots_of(cls).keys() | set(cls.__struct_fields__)
        while field and re.split(r"[.\[]", field, maxsplit=1)[0] not in known:
            field = field.partition(".")[2]
        shown = show_path(path)
        where = f"{shown}.{field}" if shown and field else shown or field
        self.problems.append(Problem(where, words_of(error)))
        return _BAD

    def _unknown(self, key: str, struct: inspect.StructType, path: Path) -> Any:
        reason = getattr(struct.cls, "REFUSED", {}).get(key)
        if reason is not None:
            return self.wrong((*path, key), reason)
        valid = list(slots_of(struct.cls))
        if struct.tag_field is not None:
            valid.insert(0, struct.tag_field)
        near = nearest(key, valid)
        hint = f"; did you mean {near}?" if near is not None else f"; valid here: {choice(valid)}"
        return self.wrong((*path, key), f"unknown key{hint}")

    def _scalar(self, value: object, kind: inspect.Type, path: Path) -> Any:
        if isinstance(kind, inspect.LiteralType):
            if value not in kind.values:
                near = nearest(str(value), map(str, kind.values))
                hint = "" if near is None else f"; did you mean {shown(near)}?"
                return self.wrong(path, f"must be {describe(kind)}, not {shown(value)}{hint}")
            return value
        if isinstance(kind, inspect.IntType | inspect.FloatType | inspect.DecimalType):
            return self._number(value, kind, path)
        return value

    def _number(
        self, value: object, kind: inspect.IntType | inspect.FloatType | inspect.DecimalType, path: Path
    ) -> Any:
        assert isinstance(value, int | float)
        if isinstance(value, int) and not -_LARGE < value < _LARGE:
            return self.wrong(path, "is too large a number")
        if math.isnan(value):
            return self.wrong(path, "must be a number, not NaN")
        if isinstance(kind, inspect.DecimalType):
            return Decimal(repr(value))
        for bound, words, holds in _BOUNDS:
            limit = getattr(kind, bound)
            if limit is not None and not holds(value, limit):
                return self.wrong(path, f"must be {words} {limit:g}, not {value:g}")
        return value if isinstance(kind, inspect.IntType) else float(value)
