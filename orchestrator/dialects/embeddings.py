"""Embeddings: how large the input is, and what the answer says that it cost.

Source: the OpenAI API reference, "Create embeddings".
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agents.errors import Refused
from agents.messages import Usage

BYTES_PER_TOKEN = 4
"""What one token of an input given as token numbers counts as, in bytes: the owner learns tokens from bytes."""


class BadInput(Refused):
    """The input is none of what embeddings take; `field` is its path."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}", status=400, code="invalid_value")
        self.field = field


def embedding_input_bytes(fields: Mapping[str, msgspec.Raw]) -> int:
    """The input's size in bytes: text in UTF-8, a token number as `BYTES_PER_TOKEN`.

    Raises `BadInput` for what is no string, list of strings, list of token numbers, or list of such lists.
    """
    raw = fields.get("input")
    if raw is None:
        raise BadInput("input", "is missing; it must be a string, a list of strings, or lists of token numbers")
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError as exc:
        raise BadInput("input", f"cannot be read: {exc}") from None
    if isinstance(value, str):
        return len(value.encode())
    if not isinstance(value, list) or not value:
        raise BadInput("input", "must be a string, a list of strings, or lists of token numbers, and not empty")
    return sum(_size(f"input[{index}]", item) for index, item in enumerate(value))


def embedding_usage(document: bytes) -> Usage | None:
    """What the answer reports; None where it reports nothing, which is unknown and not 0."""
    try:
        usage = msgspec.json.decode(document, type=_Answer).usage
    except msgspec.DecodeError:
        return None
    if usage is None:
        return None
    count = usage.prompt_tokens if usage.prompt_tokens is not None else usage.total_tokens
    return None if count is None else Usage(input=count, output=0)


class _Count(msgspec.Struct):
    prompt_tokens: int | None = None
    total_tokens: int | None = None


class _Answer(msgspec.Struct):
    usage: _Count | None = None


def _size(path: str, item: Any) -> int:
    if isinstance(item, str):
        return len(item.encode())
    if type(item) is int:
        return BYTES_PER_TOKEN
    if isinstance(item, list) and item and all(type(token) is int for token in item):
        return BYTES_PER_TOKEN * len(item)
    raise BadInput(path, "must be a string, a token number or a list of token numbers")
