"""A valid instance for a JSON Schema: what the simulated model writes as tool arguments and structured answers.

Covers what tools and structured outputs use: type (also a list of types), enum, const, properties and required, items
and prefixItems with bounds, anyOf / oneOf (the first branch), allOf (merged), local $ref, bounds of numbers and
strings, multipleOf, common formats, and patterns by `pattern`. Known limits: no conditionals, no `not`, no
`uniqueItems` beyond what chance gives, no remote references. Optional properties are left out below `DEPTH` levels,
so that recursive schemas end, and where their default is null.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from orchestrator.backends.simulated.pattern import matching

DEPTH = 4
MAX_SIZE = 10_000
WORDS = ("amber", "brook", "cedar", "delta", "ember", "field", "grove", "haven", "inlet", "jetty")
_FORMATS = {
    "date": "20{a:02d}-{b:02d}-{c:02d}",
    "time": "{c:02d}:{a:02d}:00Z",
    "date-time": "20{a:02d}-{b:02d}-{c:02d}T{c:02d}:{a:02d}:00Z",
    "email": "{word}@example.com",
    "uri": "https://example.com/{word}",
    "uuid": "{a:08x}-{b:04x}-4{c:03x}-8{a:03x}-{b:012x}",
    "ipv4": "192.0.2.{a}",
    "hostname": "{word}.example.com",
    "duration": "PT{a}M",
}


class BadSchema(ValueError):
    """No instance can be made: the schema is malformed, asks for the impossible, or for too much."""


def instance(schema: Any, rng: Random) -> Any:
    """An instance of the schema, drawn with `rng`. `True` and `{}` allow anything and give a word.

    Raises `BadSchema`.
    """
    try:
        return _Writer(schema, rng).value(schema, 0)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BadSchema(f"no answer can be made for the schema: {type(error).__name__}: {error}") from error


class _Writer:
    def __init__(self, root: Any, rng: Random) -> None:
        self._root = root
        self._rng = rng

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return self._rng.choice(WORDS)
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._rng.choice(list(schema["enum"]))
        match _type_of(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer":
                return self._number(schema, whole=True)
            case "number":
                return self._number(schema, whole=False)
            case "boolean":
                return self._rng.random() < 0.5
            case "null":
                return None
            case _:
                return self._string(schema)

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follows references and the first branch of each choice until a plain schema is left."""
        for _ in range(32):
            branch: Any
            if "$ref" in schema:
                branch = self._reference(str(schema["$ref"]))
                rest = {k: v for k, v in schema.items() if k != "$ref"}
            else:
                key = next((k for k in ("allOf", "anyOf", "oneOf") if schema.get(k)), None)
                if key is None:
                    break
                rest = {k: v for k, v in schema.items() if k != key}
                branch = {}
                for part in schema[key] if key == "allOf" else schema[key][:1]:
                    resolved = self._resolve(part) if isinstance(part, Mapping) else {}
                    branch = _merged(branch, resolved)
            schema = _merged(rest, branch) if isinstance(branch, Mapping) else rest
        return schema

    def _reference(self, pointer: str) -> Any:
        node = self._root
        for part in pointer.removeprefix("#").strip("/").split("/"):
            if not part:
                continue
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or part not in node:
                return {}
            node = node[part]
        return node

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.value(part, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in required or (depth < DEPTH and not _is_left_out(part))
        }

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first = list(schema.get("prefixItems", ()))
        low = _size(schema.get("minItems", 0 if depth >= DEPTH else 1))
        high = int(schema.get("maxItems", max(low, 2)))
        length = max(len(first) if depth < DEPTH else 0, self._rng.randint(low, max(low, min(high, low + 2))))
        rest = schema.get("items", {})
        return [self.value(first[i] if i < len(first) else rest, depth + 1) for i in range(min(length, max(high, low)))]

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        step = schema.get("multipleOf", 1 if whole else 0.5)
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(over := schema.get("exclusiveMinimum"), (int, float)) and not isinstance(over, bool):
            low = over + step if low is None else max(low, over + step)
        if isinstance(under := schema.get("exclusiveMaximum"), (int, float)) and not isinstance(under, bool):
            high = under - step if high is None else min(high, under - step)
        if low is None:
            low = 0 if high is None else high - 100 * step
        if high is None:
            high = low + 100 * step
        first, last = math.ceil(low / step), math.floor(high / step)
        if first > last:  # bounds narrower than the step, which only bounds were asked for
            return low if whole else (low + high) / 2
        number = self._rng.randint(first, min(last, first + 100)) * step
        return int(number) if whole else number

    def _string(self, schema: Mapping[str, Any]) -> str:
        if isinstance(pattern := schema.get("pattern"), str):
            text = matching(pattern, self._rng)
            if text is not None:
                return text
        if form := _FORMATS.get(schema.get("format", "")):
            rng = self._rng
            return form.format(
                a=rng.randint(10, 59), b=rng.randint(1, 12), c=rng.randint(1, 23), word=rng.choice(WORDS)
            )
        low, high = _size(schema.get("minLength", 0)), schema.get("maxLength")
        text = self._rng.choice(WORDS)
        while len(text) < low:
            text += " " + self._rng.choice(WORDS)
        return text if high is None else text[: int(high)]


def _is_left_out(part: Any) -> bool:
    """Whether an optional property is null unless somebody has a reason to say it, which nobody here has."""
    return isinstance(part, Mapping) and "default" in part and part["default"] is None


def _size(value: Any) -> int:
    size = int(value)
    if size > MAX_SIZE:
        raise ValueError(f"a size of {size} is too much")
    return size


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        kind = next((k for k in kind if k != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "number" if "minimum" in schema or "maximum" in schema else "string"


def _merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Both schemas at once, as far as a generator needs it: properties and required are united, `b` wins."""
    merged = {**a, **b}
    if "properties" in a and "properties" in b:
        merged["properties"] = {**a["properties"], **b["properties"]}
    if "required" in a and "required" in b:
        merged["required"] = [*a["required"], *b["required"]]
    return merged
