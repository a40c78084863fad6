"""A program's body as a request: its members verbatim, and the few that are looked at here, strictly.

Looked at is what the queue needs (which model, how much output, streamed or not) and what no provider takes (no
messages at all). Everything else is for whoever serves it, unknown members included. A member that is null is as if it
were not there, but stays in `fields`.

| dialect        | must be there           | bounds the output                                | streamed |
|----------------|-------------------------|--------------------------------------------------|----------|
| `chat`         | `messages`              | `max_completion_tokens`, or else `max_tokens`; `n` | may be |
| `responses`    | (`input`)               | `max_output_tokens`                              | may be   |
| `messages`     | `messages`, `max_tokens` | `max_tokens`                                    | may be   |
| `count_tokens` | `messages`              |                                                  | never    |
| `embeddings`   | `input`                 |                                                  | never    |
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from agents.messages import Dialect, WireRequest
from orchestrator.dialects.input_size import input_bytes
from orchestrator.dialects.json_text import BadRequestBody, members
from orchestrator.dialects.stored import refuse_stored

MOST_TOKENS: Final = 100_000_000
MOST_CHOICES: Final = 128
LONGEST_MODEL: Final = 256

T = TypeVar("T", bound="str | bool | int")

_OUTPUT_BOUNDS: Final[Mapping[Dialect, tuple[str, ...]]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
"""The names of the member that bounds the output, the newest first; the last is used where the program used none."""
_WORDS: Final[Mapping[type, str]] = {str: "a string", bool: "true or false", int: "a whole number"}
_NULL: Final = b"null"

_anything = msgspec.json.Decoder()
_items = msgspec.json.Decoder(list[Raw])


class _StreamOptions(Struct):
    include_usage: bool | None = None


class ParsedRequest(Struct, frozen=True):
    """A program's request. `model` is empty where it names none (which no provider allows, but a default may serve).

    `max_tokens` bounds the output of one of its `choices`; None where it does not say. `include_usage` asks a `chat`
    stream for a last chunk with the usage.
    """

    wire: WireRequest
    model: str
    stream: bool = False
    max_tokens: int | None = None
    choices: int = 1
    include_usage: bool = False

    @property
    def output_bound(self) -> int | None:
        """The greatest number of output tokens of all its choices together; None where it does not say."""
        return None if self.max_tokens is None else self.max_tokens * self.choices


def parse_request(body: bytes, dialect: Dialect, headers: Mapping[str, str] | None = None) -> ParsedRequest:
    """The request in a body. `headers` go with it (see `WireRequest`).

    Raises `BadRequestBody` and other `Refused` with status 400, which name the member.
    """
    fields = members(body)
    model = _model(fields)
    stream = dialect not in _NEVER_STREAMED and bool(_value(fields, "stream", bool))
    _check_input(dialect, fields)
    bounds = [_count(fields, name, MOST_TOKENS) for name in _OUTPUT_BOUNDS.get(dialect, ())]
    max_tokens = next((bound for bound in bounds if bound is not None), None)
    if dialect == "messages" and max_tokens is None:
        raise _missing("max_tokens", "how many tokens the answer may have")
    choices = (_count(fields, "n", MOST_CHOICES) or 1) if dialect == "chat" else 1
    return ParsedRequest(
        WireRequest(dialect, fields, input_bytes(dialect, fields), headers or {}, len(body)),
        model,
        stream,
        max_tokens,
        choices,
        dialect == "chat" and _include_usage(fields),
    )


def bounded(wire: WireRequest, max_tokens: int) -> WireRequest:
    """The request with its output bounded to this many tokens, under the name that the program used."""
    names = _OUTPUT_BOUNDS.get(wire.dialect, ())
    used = [name for name in names if _given(wire.fields, name) is not None]
    raw = Raw(str(max_tokens).encode())
    fields = {**wire.fields, **dict.fromkeys(used or names[-1:], raw)}
    return WireRequest(wire.dialect, fields, wire.input_bytes, wire.headers, wire.held_bytes)


_NEVER_STREAMED: Final = frozenset({"embeddings", "count_tokens"})


def _model(fields: Mapping[str, Raw]) -> str:
    name = _value(fields, "model", str)
    if name is None:
        raise _missing("model", "the name of a model")
    if not name or len(name) > LONGEST_MODEL:
        raise BadRequestBody("model", f"must be a model's name of 1 to {LONGEST_MODEL} characters")
    return name


def _check_input(dialect: Dialect, fields: Mapping[str, Raw]) -> None:
    """Raises for a request that asks nothing."""
    if dialect == "embeddings":
        return
    if dialect == "responses":
        refuse_stored(fields)
        _check_items(fields, "input", text=True)
        return
    if _given(fields, "messages") is None:
        raise _missing("messages", "a list of messages")
    _check_items(fields, "messages", text=False)


def _check_items(fields: Mapping[str, Raw], name: str, *, text: bool) -> None:
    """Raises unless the member, where it is given, is a list of objects that has any, or a string where `text` may be.

    An empty string is refused by no provider.
    """
    raw = _given(fields, name)
    if raw is None or (text and raw[:1] == b'"'):
        return
    expected = f"must be {'a string or ' if text else ''}a list of objects with at least one entry"
    try:
        items = _items.decode(raw)
    except msgspec.ValidationError:
        raise BadRequestBody(name, expected, code="invalid_type") from None
    if not items:
        raise BadRequestBody(name, expected, code="empty_array")
    for index, item in enumerate(items):
        if bytes(item)[:1] != b"{":
            raise BadRequestBody(f"{name}[{index}]", "must be an object", code="invalid_type")


def _include_usage(fields: Mapping[str, Raw]) -> bool:
    raw = _given(fields, "stream_options")
    if raw is None:
        return False
    try:
        return bool(msgspec.json.decode(raw, type=_StreamOptions).include_usage)
    except msgspec.ValidationError as error:
        inside = "include_usage" in str(error)
        field = "stream_options.include_usage" if inside else "stream_options"
        raise BadRequestBody(
            field, f"must be {'true or false' if inside else 'an object'}", code="invalid_type"
        ) from None


def _count(fields: Mapping[str, Raw], name: str, most: int) -> int | None:
    """A whole number from 1 to `most`."""
    number = _value(fields, name, int)
    if number is not None and not 1 <= number <= most:
        raise BadRequestBody(name, f"must be from 1 to {most}, not {_shown(number)}")
    return number


def _value(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    """The member as exactly this type; None where it is not given."""
    raw = _given(fields, name)
    if raw is None:
        return None
    try:
        value: Any = _anything.decode(raw)
    except msgspec.DecodeError:
        value = None
    if type(value) is not kind:
        raise BadRequestBody(name, f"must be {_WORDS[kind]}, not {_shown(raw)}", code="invalid_type")
    return value


def _given(fields: Mapping[str, Raw], name: str) -> bytes | None:
    raw = fields.get(name)
    if raw is None:
        return None
    text = bytes(raw)
    return None if text == _NULL else text


def _missing(name: str, what: str) -> BadRequestBody:
    return BadRequestBody(name, f"is missing; it must be {what}", code="missing_required_parameter")


def _shown(value: bytes | int) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
