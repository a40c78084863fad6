"""Whether a request's body is JSON that everybody behind may read: checked once, on its bytes, before it is decoded.

What passes can be decoded anywhere behind, wholly or in parts, without an error that depends on how deep the decoder
stands or how long a number may be. Nothing is decoded for it: strings are cut out, and what is left is counted.

- Depth: objects and lists may be nested `MOST_DEPTH` deep. Providers allow schemas 10 levels at most.
- Numbers: `MOST_DIGITS` digits in a row, more than the greatest double has; a longer one is no number to anybody.
- Text: UTF-8, with no half of a surrogate pair (RFC 8259, section 8; the decoder itself refuses escapes of such).
- A member that is given twice counts as it was given last, as in most parsers (RFC 8259, section 4).
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from agents.errors import Refused

MOST_DEPTH: Final = 128
MOST_DIGITS: Final = 400

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_DIGITS: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (MOST_DIGITS + 1))
_SAMPLED: Final = MOST_DIGITS // 4
_SAMPLE: Final = re.compile(rb"[0-9]{4}")
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_TOO_DEEP: Final = b"[" * (MOST_DEPTH + 1)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BadRequestBody(Refused):
    """The body, or a member of it, is not what its dialect has there. `field` is the member's path, empty for all."""

    kind = "refused"

    def __init__(self, field: str, why: str, *, code: str = "invalid_value") -> None:
        super().__init__(f"{field}: {why}" if field else why, status=400, code=code)
        self.field = field


def members(body: bytes) -> Mapping[str, msgspec.Raw]:
    """The members of the body's one JSON object, each value's text verbatim. Raises `BadRequestBody`."""
    if not body.strip():
        raise _not_json("the body is empty; a JSON object was expected")
    _check_text(body)
    _check_shape(body)
    try:
        return _members.decode(body)
    except msgspec.ValidationError:
        raise _not_json("the body must be a JSON object, with braces around it") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(f"the body is not JSON: {error}") from None


def _check_text(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise _not_json(f"the body is not UTF-8: byte {error.start} cannot be read") from None


def _check_shape(body: bytes) -> None:
    """Raises for what is nested too deep, or has too long a number."""
    # of every 100 bytes one is looked at: four of a row of 401 digits are seen, and seldom four in a row of other text
    long_number = _SAMPLE.search(body[::_SAMPLED]) is not None
    deep = body.count(b"[") + body.count(b"{") > MOST_DEPTH
    if not long_number and not deep:
        return
    bare = _STRING.sub(b'""', body)
    if long_number and _DIGITS.search(bare) is not None:
        raise _not_json(f"the body has a number of more than {MOST_DIGITS} digits; no such number can be meant")
    if deep and _deeper_than_allowed(bare.translate(_BRACKETS, _NO_BRACKETS)):
        raise _not_json(f"the body is nested more than {MOST_DEPTH} levels deep")


def _deeper_than_allowed(brackets: bytes) -> bool:
    """Whether any bracket stands deeper than allowed; each pass takes the innermost level away."""
    for _ in range(MOST_DEPTH):
        if _TOO_DEEP in brackets:
            return True
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return False
        brackets = inner
    return bool(brackets)


def _not_json(why: str) -> BadRequestBody:
    return BadRequestBody("", why, code="invalid_json")
