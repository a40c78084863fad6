"""Events of an answer in Anthropic's messages dialect, decoded to what is read of them, and written.

One struct holds the members of all kinds of event: `type` says which are there. An event, block or delta of a type that
is not known is decoded like any other and passed over, as the API's versioning policy asks for. What the typed decoder
refuses (lone surrogates, a null where a number belongs) is decoded once more, and what makes no sense then is dropped.

Source: the Claude API reference, "Streaming messages".
"""

import json
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agents.messages import Usage, WireEvent
from orchestrator.dialects.chat_wire import loads
from orchestrator.dialects.text import encoded

S = TypeVar("S", bound=Struct)


class UsageWire(Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class BlockWire(Struct):
    """A content block: whole in a document, empty at its start in a stream. An `input` that is not there is empty."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class DeltaWire(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class MessageWire(Struct):
    """The opening of a stream, or a whole answer."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[BlockWire] = []
    stop_reason: str | None = None
    usage: UsageWire | None = None
    error: Any = None


class EventWire(Struct):
    type: str = ""
    index: int | None = None
    message: MessageWire | None = None
    content_block: BlockWire | None = None
    delta: DeltaWire | None = None
    usage: UsageWire | None = None
    error: Any = None


_events = msgspec.json.Decoder(EventWire)
_messages = msgspec.json.Decoder(MessageWire)
_INNER: dict[str, type[Struct]] = {
    "message": MessageWire,
    "content_block": BlockWire,
    "delta": DeltaWire,
    "usage": UsageWire,
}


def named_event(kind: str, **members: Any) -> WireEvent:
    """An event of that type, named by it, as the API names all of its events."""
    return WireEvent(kind, encoded({"type": kind, **members}))


def decode_event(data: bytes) -> EventWire | None:
    """One event; None if it is JSON but no object. Raises `NotJSON`."""
    try:
        return _events.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(data)
    return _lenient(value, EventWire) if isinstance(value, dict) else None


def decode_message(data: bytes) -> MessageWire | None:
    """A whole answer, or the wrapper of an error; None if it is JSON but no object. Raises `NotJSON`."""
    try:
        return _messages.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(data)
    return _lenient(value, MessageWire) if isinstance(value, dict) else None


def normalise_usage(wire: UsageWire, *, complete: bool) -> Usage:
    """Tokens counted once: `input_tokens` leaves out what the cache was read for or written with, in this dialect.

    Without `complete` the output is unknown: what a stream's opening says of it is what there was of it then.
    """
    return Usage(
        input=_count(wire.input_tokens),
        cached=_count(wire.cache_read_input_tokens),
        cache_write=_count(wire.cache_creation_input_tokens),
        output=_count(wire.output_tokens) if complete else None,
    )


def larger(old: Usage | None, new: Usage) -> Usage:
    """Field by field the larger one: each report is cumulative, and some servers report 0 for what they left out."""
    if old is None:
        return new
    pairs = ((getattr(old, name), getattr(new, name)) for name in Usage.__struct_fields__)
    return Usage(*(b if a is None else a if b is None else max(a, b) for a, b in pairs))


def _count(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _lenient(value: dict[str, Any], kind: type[S]) -> S:
    """Member by member what makes sense; the rest is as if it were not there."""
    known: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        found = value.get(field.encode_name)
        if found is None:
            continue
        inner = _INNER.get(field.name)
        if inner is not None:
            if isinstance(found, dict):
                known[field.name] = _lenient(found, inner)
        elif field.name == "content":
            known[field.name] = [_lenient(block, BlockWire) for block in _list(found) if isinstance(block, dict)]
        elif field.name == "input":
            known[field.name] = msgspec.Raw(json.dumps(found).encode())
        else:
            try:
                known[field.name] = msgspec.convert(found, field.type)
            except msgspec.ValidationError:
                continue
    return kind(**known)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
