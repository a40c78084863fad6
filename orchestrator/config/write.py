"""A document as TOML text: plain tables of plain values, as far as a few options make any."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.config.problems import show_path

DELETE = "\\u007f"
"""JSON's escapes are TOML's, but for this one character, which only TOML asks to escape."""


def as_toml(document: Mapping[str, Any]) -> str:
    """The text; reading it gives the document back. Knows strings, numbers, truth values and tables of them."""
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (own or not table):
        yield f"\n[{_keys(path)}]"
    for key, value in own.items():
        yield f"{_keys((key,))} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _table(value, (*path, key))


def _keys(path: tuple[str, ...]) -> str:
    return show_path(path).replace("\x7f", DELETE)


def _value(value: str | float | bool) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", DELETE)
    return str(value).lower()
