"""The answer to a program's own request: a message's events passed on, or the count of tokens as it came."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from agents.messages import Delta, Message, ModelReply, Usage, WireEvent
from orchestrator.backends.anthropic.answer import reported_error
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.backends.openai.relay import RelayAnswer
from orchestrator.backends.place import Place
from orchestrator.backends.sse import ServerEvent
from orchestrator.dialects.chat_wire import NotJSON

_Members = dict[str, Raw]

_NULL: Final = Raw(b"null")
_STOP: Final = b'"message_stop"'

_members = msgspec.json.Decoder(_Members)
_blocks = msgspec.json.Decoder(list[_Members])
_encode = msgspec.json.Encoder().encode


class MessageRelay(RelayAnswer):
    """A relay that takes an answer for whole at `message_stop` alone, and reads no further."""

    _stopped = False

    @property
    def finished(self) -> bool:
        return self._stopped

    def event(self, event: ServerEvent) -> bool:
        super().event(event)
        self._stopped = event.name == "message_stop" or (event.name == "message" and _STOP in event.data)
        return self._stopped

    def document(self, data: bytes) -> None:
        for event in events_of_message(data):
            self._add(event)
        self._stopped = True


def events_of_message(data: bytes) -> Iterator[WireEvent]:
    """A whole message as the events that a stream of it would have had, each block's text in one piece.

    Blocks keep their JSON text, known or not. Raises `NotJSON`, and `NotAnAnswer` for JSON that is no message.
    """
    try:
        message = _members.decode(data)
        content = _blocks.decode(message.get("content", b"[]"))
    except msgspec.ValidationError:
        raise NotAnAnswer("no message") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotJSON("not JSON") from None
    kind = bytes(message.get("type", _NULL))
    if kind == b'"error"' or bytes(message.get("error", _NULL)) != b"null":
        yield WireEvent("error", data)
        return
    if kind != b'"message"':
        raise NotAnAnswer("no message")
    usage = message.get("usage", Raw(b"{}"))
    ends = {name: message.get(name, _NULL) for name in ("stop_reason", "stop_sequence")}
    yield _event("message_start", message={**message, "content": [], **dict.fromkeys(ends), "usage": usage})
    for index, block in enumerate(content):
        # whole at its start: a reader and a program both take a block for what it is then
        yield _event("content_block_start", index=index, content_block=_opened(block))
        for delta in _pieces(block):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta=ends, usage=usage)
    yield _event("message_stop")


_PIECES: Final = {
    b'"text"': ("text", "text_delta", "text"),
    b'"thinking"': ("thinking", "thinking_delta", "thinking"),
    b'"tool_use"': ("input", "input_json_delta", "partial_json"),
    b'"server_tool_use"': ("input", "input_json_delta", "partial_json"),
}
"""For each type of block that a stream brings in pieces: the member, the delta's type, and its member."""


def _opened(block: _Members) -> dict[str, Any]:
    """The block as a stream opens it: with its growing member empty."""
    piece = _PIECES.get(bytes(block.get("type", _NULL)))
    if piece is None or piece[0] not in block:
        return dict(block)
    opened: dict[str, Any] = {**block, piece[0]: {} if piece[0] == "input" else ""}
    if piece[0] == "thinking" and "signature" in block:
        opened["signature"] = ""
    return opened


def _pieces(block: _Members) -> Iterator[dict[str, Any]]:
    piece = _PIECES.get(bytes(block.get("type", _NULL)))
    if piece is None or piece[0] not in block:
        return
    member, kind, name = piece
    value: Any = bytes(block[member]).decode() if member == "input" else block[member]
    yield {"type": kind, name: value}
    if member == "thinking" and "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}


def _event(name: str, **members: object) -> WireEvent:
    return WireEvent(name, _encode({"type": name, **members}))


class _Count(Struct):
    input_tokens: int | None = None
    type: str = ""
    error: Raw = _NULL


_counts = msgspec.json.Decoder(_Count)


class CountAnswer:
    """Implements `orchestrator.backends.exchange.Answer`; the reply has the count's document as it came.

    Its usage is nothing: the API counts tokens for free.
    """

    usage: Usage | None = None
    partial = ""

    def __init__(self, place: Place, model: str) -> None:
        self._place = place
        self._model = model
        self._document = b""

    @property
    def finished(self) -> bool:
        return bool(self._document)

    def event(self, event: ServerEvent) -> bool:
        """A count has no stream, but an error may come as an event."""
        if event.name == "error":
            raise reported_error(event.data, self._place, None, "")
        raise NotJSON("no count of tokens")

    def document(self, data: bytes) -> None:
        try:
            count = _counts.decode(data)
        except msgspec.ValidationError:
            raise NotAnAnswer("no count of tokens") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotJSON("not JSON") from None
        if count.type == "error" or bytes(count.error) != b"null":
            raise reported_error(data, self._place, None, "")
        if count.input_tokens is None:
            raise NotAnAnswer("no count of tokens")
        self._document = data

    def end(self) -> None:
        """Nothing is held back."""

    def take(self) -> Sequence[Delta]:
        return ()

    def reply(self) -> ModelReply:
        usage = Usage(input=0, output=0)
        return ModelReply(Message("assistant"), "stop", usage, self._model, wire=self._document)
