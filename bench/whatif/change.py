"""The configuration that was in force, and the one to be tried: another file, or single keys of the old one."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.config.decode import decode_table, parse, read_text
from orchestrator.config.difference import difference
from orchestrator.config.problems import ConfigError, Problem
from orchestrator.config.schema import Config


class Changed(Struct, frozen=True):
    """Both configurations, and in words what differs."""

    was: Config
    now: Config
    changes: list[str]


def read_change(was: Path, other: Path | None, sets: Sequence[str]) -> Changed:
    """`sets` are texts like `backends.api.tpm=90000`, put into `other` or, without it, into `was`; a key with nothing
    behind the sign is taken away. Raises `ConfigError`.
    """
    old = _read(was, ())
    new = _read(other or was, sets)
    found = difference(old, new)
    return Changed(old, new, [str(change) for change in (*found.live, *found.restart)])


def _read(path: Path, sets: Sequence[str]) -> Config:
    table = parse(read_text(path), str(path))
    for text in sets:
        keys, value = _parsed(text)
        _put(table, keys, value, text)
    where = f"{path} with --set {' '.join(sets)}" if sets else str(path)
    return replace(decode_table(table, where), source=str(path.absolute()))


def _parsed(text: str) -> tuple[tuple[str, ...], Any]:
    """The keys and the value; None takes the key away. What is no TOML value is taken as text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise _wrong(f"must look like KEY=VALUE, for example backends.api.tpm=90000, not {text!r}")
    try:
        if not value.strip():
            return _keys(tomllib.loads(f"{key} = 0")), None
        try:
            table = tomllib.loads(f"{key} = {value}")
        except tomllib.TOMLDecodeError:
            table = tomllib.loads(f"{key} = {json.dumps(value.strip())}")
    except tomllib.TOMLDecodeError:
        raise _wrong(f"{key!r} is not a key as in the file, for example tenants.alice.weight") from None
    keys = _keys(tomllib.loads(f"{key} = 0"))
    for name in keys:
        table = table[name]
    return keys, table


def _keys(table: Any) -> tuple[str, ...]:
    keys = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        keys.append(key)
    return tuple(keys)


def _put(table: dict[str, Any], keys: tuple[str, ...], value: Any, text: str) -> None:
    *way, last = keys
    for key in way:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise _wrong(f"{text}: {key} is no table in the file")
    if value is not None:
        table[last] = _merged(table.get(last), value)
    elif last in table:
        del table[last]
    else:
        raise _wrong(f"{text}: there is no such key in the file to be taken away")


def _merged(old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _wrong(message: str) -> ConfigError:
    return ConfigError([Problem("", message)], "--set")
