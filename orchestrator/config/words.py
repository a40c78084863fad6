"""Values of the configuration as a person writes them, and never one that may be a secret."""

import datetime
import json
from collections.abc import Mapping
from typing import Final

from msgspec import NODEFAULT, Struct, inspect

from orchestrator.config.kinds import slots_of
from orchestrator.config.problems import show_path

SECRET: Final = frozenset({"headers", "env"})
"""Tables whose values are never shown."""

MAX_SHOWN: Final = 80
ABSENT: Final = "not set"
HIDDEN: Final = '"***"'


def in_words(value: object, *, secret: bool = False) -> str:
    """A value as TOML, cut to a readable length."""
    text = ABSENT if value is None else _toml(value, secret)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def keys_of(table: Struct) -> dict[str, object]:
    """A struct's values by the keys that the file has for them."""
    slots = slots_of(type(table)).items()
    return {key: getattr(getattr(table, slot.inside) if slot.inside else table, slot.name) for key, slot in slots}


def said_keys(table: Struct) -> dict[str, object]:
    """Those of its keys whose values are not the default."""
    slots = slots_of(type(table))
    return {key: value for key, value in keys_of(table).items() if value != _default(slots[key].field)}


def _default(field: inspect.Field) -> object:
    return (
        field.default_factory()
        if field.default is NODEFAULT and field.default_factory is not NODEFAULT
        else field.default
    )


def _toml(value: object, secret: bool) -> str:
    if isinstance(value, Struct):
        kind = value.__struct_config__.tag
        return _table({**({} if kind is None else {"kind": kind}), **said_keys(value)}, secret)
    if isinstance(value, Mapping):
        return _table(value, secret)
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item, secret) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, str):
        return HIDDEN if secret else json.dumps(value, ensure_ascii=False)
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _table(items: Mapping[str, object], secret: bool) -> str:
    inside = (f"{show_path((key,))} = {_toml(item, secret or key in SECRET)}" for key, item in items.items())
    return f"{{{', '.join(inside)}}}"
