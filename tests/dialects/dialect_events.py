"""Requests and events of the chat and messages dialects for tests, and the SDKs' own way to read them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from agents.messages import Dialect, WireEvent, WireRequest
from orchestrator.dialects.base import Translator

DONE = WireEvent("", b"[DONE]")

_stream_events: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def request(dialect: Dialect, **fields: Any) -> WireRequest:
    """A program's request with these members."""
    return WireRequest(dialect, {name: msgspec.Raw(json.dumps(value).encode()) for name, value in fields.items()}, 0)


def fields_of(wire: WireRequest) -> dict[str, Any]:
    """A request's members as plain data."""
    return {name: json.loads(bytes(raw)) for name, raw in wire.fields.items()}


def chunk(delta: Any = None, finish: str | None = None, *, index: int = 0, **members: Any) -> WireEvent:
    """A chunk of a chat completion with one choice."""
    choice = {"index": index, "delta": delta if delta is not None else {}, "finish_reason": finish}
    return bare({"choices": [choice], **members})


def bare(members: dict[str, Any]) -> WireEvent:
    """A chunk with these members on top of those that every chunk has."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
    return WireEvent("", json.dumps({**head, **members}).encode())


def usage(prompt: int = 10, completion: int = 4, **details: int) -> dict[str, Any]:
    said: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    said["total_tokens"] = prompt + completion
    if details:
        said["prompt_tokens_details"] = details
    return said


def call(index: int | None, call_id: str | None = None, name: str | None = None, arguments: str | None = None) -> Any:
    """A fragment of a tool call as a chunk's delta."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    members = (("index", index), ("id", call_id), ("type", "function" if call_id else None), ("function", function))
    return {"tool_calls": [{key: value for key, value in members if value is not None}]}


def event(kind: str, **members: Any) -> WireEvent:
    """An event of the messages dialect."""
    return WireEvent(kind, json.dumps({"type": kind, **members}).encode())


def start(**members: Any) -> WireEvent:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return event("message_start", message={**message, **members})


def block(index: int, kind: str, deltas: Sequence[dict[str, Any]] = (), **members: Any) -> list[WireEvent]:
    """A content block from start to stop."""
    return [
        event("content_block_start", index=index, content_block={"type": kind, **members}),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def ending(reason: str = "end_turn", **used: int) -> list[WireEvent]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [event("message_delta", delta=delta, usage={"output_tokens": 4, **used}), event("message_stop")]


def translate(translator: Translator, events: Iterable[WireEvent]) -> list[WireEvent]:
    """Everything that a translator makes of a whole answer."""
    made = [after for before in events for after in translator.feed(before)]
    return [*made, *translator.end()]


def chunks_of(events: Iterable[WireEvent]) -> list[ChatCompletionChunk]:
    """Chunks as the SDK reads them, without the end marker."""
    return [ChatCompletionChunk.model_validate_json(made.data) for made in events if made != DONE]


def completion(document: bytes) -> ChatCompletion:
    return ChatCompletion.model_validate_json(document)


def message_of(events: Iterable[WireEvent]) -> Message:
    """The message that the SDK puts together of these events, each of which it has to know, in an order it takes."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for made in events:
        assert json.loads(made.data)["type"] == made.event
        if made.event != "ping":
            parsed = _stream_events.validate_json(made.data)
            snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
    return Message.model_validate(snapshot.to_dict())
