"""Finds what a decoder dropped: keys of a nested object that its type does not have.

Structs can forbid unknown keys; dataclasses, typed dictionaries and other people's structs drop them without a word.
A dropped key is a wish that was not heard (`{"amount": 5, "dry_run": true}`), so such a call must not run.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


def unknown_key(raw: Any, decoded: object, path: str = "$") -> str | None:
    """What is unknown and where, in words; None where all that was written is in `decoded`.

    Members of sets are not looked into.
    """
    if isinstance(raw, dict):
        return _in_object(raw, decoded, path)
    if isinstance(raw, list):
        if isinstance(decoded, msgspec.Struct):
            return _in_array_like(raw, decoded, path)
        if isinstance(decoded, list | tuple):
            return _first(unknown_key(raw[n], decoded[n], f"{path}[{n}]") for n in range(len(raw)))
    return None


def _in_object(raw: dict[str, Any], decoded: object, path: str) -> str | None:
    if isinstance(decoded, dict) and not all(isinstance(key, str) for key in decoded):
        if len(decoded) < len(raw):
            return f"two keys mean the same - at `{path}`"
        pairs = zip(raw.items(), decoded.values(), strict=True)
        return _first(unknown_key(value, inner, f"{path}.{key}") for (key, value), inner in pairs)
    known = _known(decoded)
    if known is None:
        return None
    for key in raw:
        if key not in known:
            names = ", ".join(known) or "nothing"
            return f"Object contains unknown field `{key}` - at `{path}`; it takes {names}"
    return _first(unknown_key(raw[key], known[key], f"{path}.{key}") for key in raw)


def _in_array_like(raw: list[Any], decoded: msgspec.Struct, path: str) -> str | None:
    fields = decoded.__struct_fields__
    start = 0 if decoded.__struct_config__.tag is None else 1
    if len(raw) > len(fields) + start:
        return f"Array has more than {len(fields) + start} items - at `{path}`"
    return _first(
        unknown_key(raw[n + start], getattr(decoded, fields[n]), f"{path}[{n + start}]")
        for n in range(len(raw) - start)
    )


def _known(decoded: object) -> Mapping[str, object] | None:
    """The values of an object by the keys they are written under; None for what is no object."""
    if isinstance(decoded, msgspec.Struct):
        names = zip(decoded.__struct_encode_fields__, decoded.__struct_fields__, strict=True)
        values: dict[str, object] = {key: getattr(decoded, field) for key, field in names}
        tag = decoded.__struct_config__.tag_field
        return values if tag is None else {tag: None, **values}
    if dataclasses.is_dataclass(decoded):
        return {field.name: getattr(decoded, field.name, None) for field in dataclasses.fields(decoded)}
    return decoded if isinstance(decoded, dict) else None


def _first(found: Iterable[str | None]) -> str | None:
    return next((problem for problem in found if problem is not None), None)
