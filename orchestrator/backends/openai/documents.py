"""Answers in one piece as the events that a stream would have had: for servers that ignore `stream: true`.

Whatever the dialect's reader, translator and assembler do with events then works for these servers too. Members keep
their JSON text, known or not. Sources: the OpenAI API reference, "Chat", "Responses" and their streaming events.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from agents.messages import Dialect, WireEvent
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.dialects.chat_wire import loads
from orchestrator.dialects.text import scrub

_Members = dict[str, Raw]

_members: Final = msgspec.json.Decoder(_Members)
_rows: Final = msgspec.json.Decoder(list[_Members])
_encode: Final = msgspec.json.Encoder().encode


def events_of_document(data: bytes, native: Dialect) -> list[WireEvent]:
    """The events. Raises `NotJSON`, and `NotAnAnswer` for JSON that is no answer of this dialect."""
    try:
        members = _members.decode(data)
        return list(_responses(members) if native == "responses" else _chat(members))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Strings that only a lenient reader takes: written anew, they are read like all others.
    value = loads(data)
    if not isinstance(value, dict):
        raise _no_answer(native)
    try:
        members = _members.decode(scrub(json.dumps(value, ensure_ascii=False)).encode())
        return list(_responses(members) if native == "responses" else _chat(members))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise _no_answer(native) from None


def _no_answer(native: Dialect) -> NotAnAnswer:
    return NotAnAnswer("no response" if native == "responses" else "no chat completion")


def _says(members: _Members, name: str) -> bool:
    return name in members and bytes(members[name]) != b"null"


def _failed(members: _Members) -> bool:
    return _says(members, "error") or bytes(members.get("object", b"")) == b'"error"'


def _chat(members: _Members) -> Iterator[WireEvent]:
    """The whole text as one chunk, then usage alone, where a stream has it."""
    if _failed(members):
        yield WireEvent("", _encode(members))
        return
    if not _says(members, "choices"):
        raise _no_answer("chat")
    choices = _rows.decode(members["choices"])
    if not choices:
        raise _no_answer("chat")
    usage = members.pop("usage", None)
    members["object"] = Raw(b'"chat.completion.chunk"')
    yield WireEvent("", _encode({**members, "choices": [_chunk_choice(choice) for choice in choices]}))
    if usage is not None:
        yield WireEvent("", _encode({**members, "choices": [], "usage": usage}))


def _chunk_choice(choice: _Members) -> dict[str, Any]:
    if not _says(choice, "message"):
        return dict(choice)
    delta: dict[str, Any] = dict(_members.decode(choice["message"]))
    if "tool_calls" in delta and bytes(delta["tool_calls"]) != b"null":
        calls = _rows.decode(delta["tool_calls"])
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return {("delta" if name == "message" else name): delta if name == "message" else choice[name] for name in choice}


def _responses(members: _Members) -> Iterator[WireEvent]:
    """The answer begins empty, each item comes whole, and the last event carries the document as it is."""
    if _failed(members) and not _says(members, "output"):
        yield WireEvent("error", _encode(members))
        return
    if not _says(members, "output"):
        raise _no_answer("responses")
    status = json.loads(bytes(members["status"])) if _says(members, "status") else "completed"
    begun: dict[str, Any] = {**members, "status": "in_progress", "output": [], "usage": None}
    frames: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": begun})]
    for index, item in enumerate(_rows.decode(members["output"])):
        frames.append(("response.output_item.added", {"output_index": index, "item": item}))
        frames.append(("response.output_item.done", {"output_index": index, "item": item}))
    last = f"response.{status}" if status in ("completed", "incomplete", "failed") else "response.completed"
    frames.append((last, {"response": members}))
    for number, (name, said) in enumerate(frames):
        yield WireEvent(name, _encode({"type": name, "sequence_number": number, **said}))
