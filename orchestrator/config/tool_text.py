"""`[tools.NAME]` once more as the file has it, for whoever makes the tools on another machine."""

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from orchestrator.config.tool_table import ToolTable
from orchestrator.config.words import said_keys
from orchestrator.views.workers import ToolTables


def tool_tables(tools: Mapping[str, ToolTable]) -> ToolTables:
    """All tables, with a digest by which a change is known: reading one gives the `ToolTable` back."""
    written = {name: _written(table) for name, table in tools.items()}
    digest = hashlib.sha256(msgspec.json.encode(written, order="sorted")).hexdigest()[:16]
    return ToolTables(digest=digest, tools=written)


def _written(value: Any) -> Any:
    if isinstance(value, Struct):
        return {key: _written(item) for key, item in said_keys(value).items()}
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_written(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value
