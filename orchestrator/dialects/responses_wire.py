"""Events of OpenAI's responses dialect as they are decoded: only what is needed, everything else stays bytes.

Source: the OpenAI API reference, "Responses", streaming events.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from agents.messages import FinishReason, Usage, WireEvent
from orchestrator.dialects.chat_wire import loads

TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
INCOMPLETE: Final[Mapping[str, FinishReason]] = {"max_output_tokens": "length", "content_filter": "content_filter"}
CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Items that a program answers with a result of its own."""


class ItemWire(Struct):
    type: str | None = None


class EventWire(Struct):
    """One event. `response` and `item` stay as they came, empty where absent; `error` is whatever stands there."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item: Raw = Raw()
    response: Raw = Raw()
    error: Any = None


class TokensWire(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class UsageWire(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: TokensWire | None = None


class ReasonWire(Struct):
    reason: str | None = None


class ContentWire(Struct):
    type: str | None = None
    text: str | None = None


class OutputWire(Struct):
    type: str | None = None
    content: list[ContentWire] | None = None


class ResponseWire(Struct):
    """The response as far as accounting needs it."""

    status: str | None = None
    usage: UsageWire | None = None
    incomplete_details: ReasonWire | None = None
    output: list[OutputWire] | None = None
    error: Any = None

    @property
    def text(self) -> str:
        """All text of the answer, without reasoning and refusals."""
        parts = [part for item in self.output or () if item.type == "message" for part in item.content or ()]
        return "".join(part.text or "" for part in parts if part.type == "output_text")

    @property
    def calls(self) -> bool:
        """Whether the answer calls tools that its program has."""
        return any(item.type in CALLS for item in self.output or ())


_events = msgspec.json.Decoder(EventWire)
_items = msgspec.json.Decoder(ItemWire)
_responses = msgspec.json.Decoder(ResponseWire)


def decode_event(event: WireEvent) -> EventWire | None:
    """One event; None for what is none (an end marker, JSON that is no object). Raises `chat_wire.NotJSON`.

    A server that leaves the type out of the data has it in the event's name.
    """
    if event.data[:1] != b"{" and event.data.strip() in (b"", b"[DONE]"):
        return None
    try:
        wire = _events.decode(event.data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(event.data)
        if not isinstance(value, dict):
            return None
        wire = _lenient(value)
    if not wire.type:
        wire.type = event.event
    return wire


def is_object(raw: Raw) -> bool:
    """Whether a member is there and is an object: neither absent, nor null, nor nonsense."""
    return bytes(memoryview(raw)[:1]) == b"{"


def decode_response(raw: Raw) -> ResponseWire:
    """The `response` of an event; what makes no sense in it counts as absent."""
    if not is_object(raw):
        return ResponseWire()
    try:
        return _responses.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        value = loads(bytes(raw))
    return _lenient_response(value) if isinstance(value, dict) else ResponseWire()


def item_type(raw: Raw) -> str:
    """What kind of item it is; empty where it does not say."""
    try:
        return _items.decode(raw).type or ""
    except msgspec.DecodeError:
        return ""


def normalise_usage(wire: UsageWire | None) -> Usage | None:
    """Tokens counted once: `input_tokens` includes what was read from a cache and written to one, in this dialect."""
    if wire is None:
        return None
    details = wire.input_tokens_details or TokensWire()
    cached, written = _count(details.cached_tokens), _count(details.cache_write_tokens)
    given, output = _count(wire.input_tokens), _count(wire.output_tokens)
    if given is None:
        return None if output is None else Usage(output=output)
    cached = min(cached, given) if cached is not None else None
    written = min(written, given - (cached or 0)) if written is not None else None
    return Usage(given - (cached or 0) - (written or 0), cached, written, output)


def _count(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


# What follows runs only for events that the typed decoders refused.


def _lenient(value: dict[str, Any]) -> EventWire:
    kind, delta, index = value.get("type"), value.get("delta"), value.get("output_index")
    return EventWire(
        type=kind if isinstance(kind, str) else "",
        delta=delta if isinstance(delta, str) else None,
        output_index=index if type(index) is int else None,
        item=_raw(value.get("item")),
        response=_raw(value.get("response")),
        error=value.get("error"),
    )


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode()) if isinstance(value, dict) else Raw()


def _lenient_response(value: dict[str, Any]) -> ResponseWire:
    wire = ResponseWire(error=value.get("error"))
    for name, kind in (
        ("status", str),
        ("usage", UsageWire),
        ("incomplete_details", ReasonWire),
        ("output", list[OutputWire]),
    ):
        try:
            setattr(wire, name, msgspec.convert(value.get(name), kind | None))
        except msgspec.ValidationError:
            continue
    return wire
