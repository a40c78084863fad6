"""Lone surrogates: JSON escapes can name half a character, and no UTF-8 can carry it further."""

from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def scrub(text: str) -> str:
    """The text with surrogate pairs joined and every lone half replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def scrubbed(value: Any) -> Any:
    """Plain data with every text in it scrubbed, keys too."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub(key) if isinstance(key, str) else key: scrubbed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in value]
    return value


def encoded(value: Any) -> bytes:
    """Plain data as JSON; halves that a lenient decoder let through become U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrubbed(value))


class TextJoiner:
    """Scrubs a text that comes in pieces; a first half at the end of a piece waits for its second half."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def add(self, text: str) -> str:
        if text.isascii() and not self._half:
            return text
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half = text[-1]
            text = text[:-1]
        return scrub(text)

    def finish(self) -> str:
        """What is left when no more text comes."""
        half, self._half = self._half, ""
        return scrub(half)
