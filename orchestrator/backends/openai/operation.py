"""What a request comes to at an OpenAI-compatible server: where it goes, the body, and who reads the answer.

| request            | server speaks it | otherwise                          |
|--------------------|------------------|------------------------------------|
| canonical          | chat             |                                    |
| wire `chat`        | as it is         | refused                            |
| wire `responses`   | as it is         | translated to chat                 |
| wire `messages`    |                  | translated to chat                 |
| wire `embeddings`  | as it is         | refused                            |
| wire `count_tokens` |                 | estimated here: no server of this kind counts |

A wire request's bound on the output is the program's own; the configuration's `max_tokens` is for requests that are
made here. What is changed is the model's name, and that the answer is streamed, with usage where the server has it.
"""

from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from agents.errors import ModelError, Refused
from agents.messages import Dialect, Message, ModelReply, ModelRequest, Usage, WireRequest
from orchestrator.backends.exchange import Answer
from orchestrator.backends.openai.answer import CanonicalAnswer
from orchestrator.backends.openai.calls import CallsPutRight
from orchestrator.backends.openai.embeddings import EmbeddingsAnswer, embeddings_body
from orchestrator.backends.openai.encode import EncodingRules, encode_request
from orchestrator.backends.openai.errors import error_from_event
from orchestrator.backends.openai.null import without_null_content
from orchestrator.backends.openai.relay import ChatRelay, RelayAnswer
from orchestrator.backends.place import Place
from orchestrator.dialects.chat_reader import ChatReader
from orchestrator.dialects.encode import encode_upstream
from orchestrator.dialects.readers import reader
from orchestrator.dialects.translators import translator

_NAMES: Final[dict[Dialect, str]] = {
    "chat": "chat completions",
    "responses": "responses",
    "embeddings": "embeddings",
    "messages": "messages",
    "count_tokens": "counts of tokens",
}
_BYTES_PER_TOKEN: Final = 4
_TRANSLATED: Final = frozenset({"responses", "messages"})


def estimated_count(wire: WireRequest, model: str) -> ModelReply:
    """An answer to `count_tokens` without any server: about four bytes to a token. It costs nothing."""
    document = msgspec.json.encode({"input_tokens": -(-wire.input_bytes // _BYTES_PER_TOKEN)})
    return ModelReply(Message("assistant"), "stop", Usage(input=0, output=0), model, wire=document)


class Operation(Struct, frozen=True):
    """One request, ready to be sent. `dialect` is the one that the server is spoken to in."""

    dialect: Dialect
    content: bytes
    answer: Answer


def operation_of(request: ModelRequest, rules: EncodingRules, spoken: frozenset[Dialect], place: Place) -> Operation:
    """The operation. Raises `Refused`, also `Untranslatable`, for a request that this server has no words for."""
    wire = request.wire
    if wire is None:
        return Operation("chat", encode_request(request, rules), CanonicalAnswer(place))
    model = rules.server_model(request.model)
    native = _native(wire.dialect, spoken, place)
    if native == "embeddings":
        return Operation(native, embeddings_body(wire, model), EmbeddingsAnswer(place, model))
    if native == wire.dialect == "chat" and rules.null_content == "empty":
        wire = without_null_content(wire)
    content = encode_upstream(wire, native, model=model)
    if native == "chat" and not rules.include_usage:
        content = _without_stream_options(content)
    judge = partial(_reported, place)
    words = translator(native, wire.dialect, model=model, wire=wire)
    if wire.dialect == "chat":
        return Operation(native, content, ChatRelay(ChatReader(judge), CallsPutRight(words), model))
    return Operation(native, content, RelayAnswer(native, reader(native, judge), words, model))


def _native(dialect: Dialect, spoken: frozenset[Dialect], place: Place) -> Dialect:
    if dialect in spoken:
        return dialect
    if dialect in _TRANSLATED and "chat" in spoken:
        return "chat"
    speaks = ", ".join(_NAMES[known] for known in sorted(spoken))
    raise Refused(
        f"{place.host} serves no {_NAMES[dialect]}: it serves {speaks}", status=404, code="unsupported_dialect"
    )


def _without_stream_options(content: bytes) -> bytes:
    """For servers that must not be asked for usage: they know none of the other options either."""
    fields = msgspec.json.decode(content, type=dict[str, Raw])
    fields.pop("stream_options", None)
    return msgspec.json.encode(fields)


def _reported(place: Place, value: Any, usage: Usage | None, partial: str) -> ModelError:
    return error_from_event(value, place, usage, partial)
