"""The text that a model wrote as arguments: whether it is one JSON object at all, and if not, in which way.

Models cut their JSON short, write it twice, wrap it in a code fence, put it into a JSON text, or use another language's
notation. None of that is repaired: what was meant is a guess, and a guess must not act. It is told back in words that
the model can act on. Two spellings of one key are refused as well, since readers differ in which of them counts.
"""

import json
import re
from typing import Any, Final

import msgspec

from agents.errors import HeadraceError

MOST_CHARACTERS: Final = 1024 * 1024
"""Characters of one call's arguments."""
MOST_DEPTH: Final = 64
"""How deep objects and arrays may be nested."""
MOST_SHOWN: Final = 400
"""Characters of what a decoder says, which quotes what the model wrote."""

_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|$)', re.DOTALL)


class BadArguments(HeadraceError):
    """The model's arguments do not fit the tool's parameters; the message says where and why, for the model."""


def bad_arguments(tool: str, reason: str) -> BadArguments:
    """The error with a reason of bounded length."""
    shown = reason if len(reason) <= MOST_SHOWN else f"{reason[:MOST_SHOWN]}…"
    return BadArguments(f"bad arguments for {tool}: {shown}")


def check_text(tool: str, text: str) -> str:
    """The text of an object, an empty one for an empty text; raises `BadArguments` for what no decoder should see."""
    if len(text) > MOST_CHARACTERS:
        raise bad_arguments(tool, f"{len(text)} characters are more than the {MOST_CHARACTERS} that arguments may have")
    if _too_deep(text):
        raise bad_arguments(tool, f"objects and arrays are nested more than {MOST_DEPTH} deep")
    return text if text.strip() else "{}"


def read_object(tool: str, text: str) -> dict[str, Any]:
    """The arguments as plain JSON values; raises `BadArguments`. For tools whose parameters are a JSON schema."""
    checked = check_text(tool, text)
    try:
        value = msgspec.json.decode(checked, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise bad_arguments(tool, why_refused(checked, error)) from error
    raw_object(tool, checked)
    return value


def raw_object(tool: str, text: str) -> Any:
    """The keys and values as written, numbers as texts; raises `BadArguments` where an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_int=str, parse_float=str)
    except _Twice as error:
        raise bad_arguments(tool, f"the key {str(error)!r} is given twice") from None
    except (ValueError, RecursionError) as error:
        raise bad_arguments(tool, f"JSON is malformed: {error}") from error


def why_refused(text: str, error: Exception) -> str:
    """What is wrong with a text that a decoder refused, in words that say what would be right."""
    if isinstance(error, msgspec.ValidationError):
        if text.lstrip().startswith('"'):
            return f"{error}: write the object itself, not a text that holds one"
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return "JSON is malformed: it holds half of a surrogate pair, which is no character"
    return _shape(text.strip())


class _Twice(Exception):
    """The key that an object has twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _shape(text: str) -> str:
    """The shape of a text that is no JSON."""
    if text.startswith("```"):
        return "JSON is malformed: it is in a code fence; write the bare object"
    try:
        _, end = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            return "the JSON is truncated: it ends before the object does; write the whole object"
        return f"JSON is malformed: {error.msg[:1].lower()}{error.msg[1:]} (at character {error.pos + 1})"
    except RecursionError:
        return "JSON is malformed: it is nested too deep"
    if end < len(text):
        return f"JSON is malformed: after one whole value there is more (at character {end + 1}); write one object"
    return "JSON is malformed: it holds NaN, an infinity or half of a surrogate pair, which JSON has not"


def _too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MOST_DEPTH:
        return False
    depth = 0
    for character in re.findall(r"[][{}]", _STRING.sub("", text)):
        depth += 1 if character in "[{" else -1
        if depth > MOST_DEPTH:
            return True
    return False
