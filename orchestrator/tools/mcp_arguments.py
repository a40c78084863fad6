"""A model's arguments held to the JSON schema that a server gives for its tool.

Strict as for every other tool: nothing is repaired, and nothing unknown is let through. A schema that names properties
and does not say whether there may be others is read as allowing none, since a server would drop them silently.

Known limit: a `pattern` is Python's regular expression, and a server can give one that is slow on purpose.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError, best_match  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from agents.argument_text import bad_arguments, read_object
from agents.arguments import InvalidTool

MOST_SCHEMA: Final = 64 * 1024
"""Bytes of a schema: it goes with every request to the model."""
_MOST_REASON: Final = 300
"""Characters of a reason: what stands behind it, the place, is to be read as well."""
_OPENS: Final = frozenset(
    ("additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if")
)


class ArgumentSchema:
    """One tool's input schema, checked. Raises `InvalidTool`."""

    __slots__ = ("_known", "_validator", "schema")

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self.schema: dict[str, Any] = {"type": "object", "properties": {}, **schema}
        try:
            size = len(msgspec.json.encode(self.schema))
            kind = validator_for(self.schema, default=Draft202012Validator)
            kind.check_schema(self.schema)
        except (SchemaError, Unresolvable, RecursionError, TypeError, ValueError) as error:
            raise InvalidTool(f"tool {tool}: its input schema is none: {_short(str(error))}") from error
        if size > MOST_SCHEMA:
            raise InvalidTool(f"tool {tool}: its input schema has {size} bytes, more than {MOST_SCHEMA}")
        if self.schema["type"] != "object":
            raise InvalidTool(f"tool {tool}: its input is no object")
        # no references out of the schema: what a server names is never fetched
        self._validator = kind(self.schema, registry=Registry())
        self._known = None if _OPENS & self.schema.keys() else frozenset(self.schema["properties"])

    def decode(self, tool: str, text: str) -> dict[str, object]:
        """The arguments that the text holds; raises `BadArguments`."""
        decoded = read_object(tool, text)
        try:
            error = best_match(self._validator.iter_errors(decoded))
        except (RecursionError, Unresolvable) as problem:
            raise bad_arguments(tool, str(problem)) from problem
        if error is not None:
            raise bad_arguments(tool, f"{_short(error.message)} - at `{error.json_path}`")
        unknown = [] if self._known is None else sorted(decoded.keys() - self._known)
        if unknown:
            known = ", ".join(sorted(self._known or ())) or "nothing"
            raise bad_arguments(tool, f"it takes {_short(known)}, and no {unknown[0]!r}")
        return decoded


def _short(text: str) -> str:
    return text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]}…"
