"""Chat-completion chunks and documents as servers really send them, decoded leniently.

A chunk is decoded straight into typed structs, which costs about a microsecond. Servers that speak the dialect loosely
(a null or a number where text belongs, content as a list of parts, arguments as an object, control characters or lone
surrogates in a string) fail that decode; only they pay for a second one that keeps what makes sense, field by field.
Absent, null and nonsensical are the same thing: None.
"""

import json
from typing import Any

import msgspec
from msgspec import Struct

from agents.messages import FinishReason, Usage

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
}
"""The words by which servers say why an answer ended, in lower case, and which of the dialect's words each means."""

BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "canceled"})
"""Words by which servers say that they broke off: no answer is complete with them."""


class NotJSON(ValueError):
    """The data is no JSON text at all."""


class FunctionWire(Struct):
    name: str | None = None
    arguments: str | None = None


class ToolCallWire(Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionWire | None = None


class DeltaWire(Struct):
    """A `delta` of a chunk or the `message` of a whole answer: the fields are the same."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallWire] | None = None


class ChoiceWire(Struct):
    index: int | None = None
    delta: DeltaWire | None = None
    message: DeltaWire | None = None
    finish_reason: str | None = None


class PromptDetailsWire(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class UsageWire(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetailsWire | None = None
    prompt_cache_hit_tokens: int | None = None


class ChunkWire(Struct):
    """One chunk of a stream, or a whole document: they differ only in `delta` and `message`.

    `error` is whatever the server put there. `object` tells apart the servers that send an error without that wrapper.
    """

    choices: list[ChoiceWire] | None = None
    usage: UsageWire | None = None
    error: Any = None
    model: str | None = None
    object: str | None = None


_decoder = msgspec.json.Decoder(ChunkWire)


def decode_chunk(data: bytes) -> ChunkWire | None:
    """One chunk; None if it is JSON but no object. Raises `NotJSON`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(data)
    return _chunk(value) if isinstance(value, dict) else None


def loads(data: bytes) -> Any:
    """Any JSON, with every leniency there is: bad UTF-8, control characters, lone surrogates, NaN. Raises `NotJSON`."""
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as exc:
        raise NotJSON("not JSON") from exc


def loads_or_text(data: bytes) -> Any:
    """Any JSON; what is none, as its text."""
    try:
        return loads(data)
    except NotJSON:
        return data.decode("utf-8", "replace")


def error_in(chunk: ChunkWire, event: str, data: bytes) -> Any:
    """What the server said went wrong, in whatever form it said it; None for a chunk that is no error."""
    if chunk.error:
        return chunk.error
    if event != "error" and chunk.object != "error":
        return None
    return loads(data)


def normalise_usage(wire: UsageWire | None) -> Usage | None:
    """Tokens counted once: `prompt_tokens` includes the cached ones in this dialect. None if nothing was reported."""
    if wire is None:
        return None
    details = wire.prompt_tokens_details or PromptDetailsWire()
    cached = _count(details.cached_tokens)
    if cached is None:
        cached = _count(wire.prompt_cache_hit_tokens)
    prompt = _count(wire.prompt_tokens)
    output = _count(wire.completion_tokens)
    if prompt is None:
        return None if output is None else Usage(output=output)
    if cached is not None:
        cached = min(cached, prompt)
    written = _count(details.cache_write_tokens)
    if written is not None:
        written = min(written, prompt - (cached or 0))
    return Usage(input=prompt - (cached or 0) - (written or 0), cached=cached, cache_write=written, output=output)


def latest_usage(old: Usage | None, new: Usage | None) -> Usage | None:
    """What two reports of one answer come to: the later one, with the former's side where it is silent of one."""
    if new is None or old is None:
        return new or old
    if new.input is None:
        return msgspec.structs.replace(old, output=new.output)
    if new.output is None:
        return msgspec.structs.replace(new, output=old.output)
    return new


def _count(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


# The lenient way: what follows runs only for chunks that the typed decoder refused.


def _chunk(value: dict[str, Any]) -> ChunkWire:
    return ChunkWire(
        choices=[_choice(item) for item in _list(value.get("choices"))],
        usage=_usage(value.get("usage")),
        error=value.get("error"),
        model=_text(value.get("model")),
        object=_text(value.get("object")),
    )


def _choice(value: dict[str, Any]) -> ChoiceWire:
    return ChoiceWire(
        index=_int(value.get("index")),
        delta=_delta(value.get("delta")),
        message=_delta(value.get("message")),
        finish_reason=_text(value.get("finish_reason")),
    )


def _delta(value: object) -> DeltaWire | None:
    if not isinstance(value, dict):
        return None
    return DeltaWire(
        content=_content(value.get("content")),
        reasoning=_content(value.get("reasoning")),
        reasoning_content=_content(value.get("reasoning_content")),
        refusal=_content(value.get("refusal")),
        tool_calls=[_tool_call(item) for item in _list(value.get("tool_calls"))],
    )


def _tool_call(value: dict[str, Any]) -> ToolCallWire:
    function = value.get("function")
    wire = None
    if isinstance(function, dict):
        arguments = function.get("arguments")
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments)
        wire = FunctionWire(name=_text(function.get("name")), arguments=_text(arguments))
    return ToolCallWire(index=_int(value.get("index")), id=_text(value.get("id")), function=wire)


def _usage(value: object) -> UsageWire | None:
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    if not isinstance(details, dict):
        details = {}
    return UsageWire(
        prompt_tokens=_int(value.get("prompt_tokens")),
        completion_tokens=_int(value.get("completion_tokens")),
        prompt_tokens_details=PromptDetailsWire(
            _int(details.get("cached_tokens")), _int(details.get("cache_write_tokens"))
        ),
        prompt_cache_hit_tokens=_int(value.get("prompt_cache_hit_tokens")),
    )


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _content(value: object) -> str | None:
    if isinstance(value, list):
        parts = [part.get("text") for part in _list(value)]
        return "".join(part for part in parts if isinstance(part, str))
    return _text(value)


def _int(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
