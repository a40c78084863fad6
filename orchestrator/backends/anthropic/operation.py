"""What a request comes to at Anthropic: where it goes, its body, and who reads the answer.

| request                    | sent as                                             |
|----------------------------|-----------------------------------------------------|
| canonical                  | messages                                            |
| wire `messages`            | as it is                                            |
| wire `count_tokens`        | as it is, for a document                            |
| wire `chat`, `responses`   | translated to messages                              |
| wire `embeddings`          | refused: Anthropic has none                         |

A translated request that bounds its output nowhere is bounded by `default_max_tokens`, since messages must be. Headers
of the program (`anthropic-beta`, `anthropic-version`) go on with a request in Anthropic's own dialect only.
"""

from functools import partial
from typing import Any, Final

import httpx2
from msgspec import Raw, Struct

from agents.errors import ModelError, Refused
from agents.messages import Dialect, ModelRequest, Usage, WireRequest
from orchestrator.backends.anthropic.answer import MessageAnswer
from orchestrator.backends.anthropic.encode import MessageRules, encode_request
from orchestrator.backends.anthropic.errors import error_from_event
from orchestrator.backends.anthropic.headers import request_headers
from orchestrator.backends.anthropic.relay import CountAnswer, MessageRelay
from orchestrator.backends.exchange import Answer
from orchestrator.backends.place import Place
from orchestrator.dialects.encode import encode_upstream
from orchestrator.dialects.readers import reader
from orchestrator.dialects.translators import translator

SPOKEN: Final[frozenset[Dialect]] = frozenset({"messages", "count_tokens"})

_BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""The members by which any dialect bounds the output."""

_NULL: Final = Raw(b"null")


class Operation(Struct, frozen=True):
    """One request, ready to be sent. `dialect` is the one that the server is spoken to in."""

    dialect: Dialect
    headers: httpx2.Headers
    content: bytes
    answer: Answer


def operation_of(request: ModelRequest, rules: MessageRules, headers: httpx2.Headers, place: Place) -> Operation:
    """The operation. Raises `Refused`, also `Untranslatable`, for a request that has no words here."""
    wire = request.wire
    if wire is None:
        return Operation("messages", headers, encode_request(request, rules), MessageAnswer(place))
    if wire.dialect == "embeddings":
        raise Refused(f"{place.host} has no embeddings", status=404, code="unsupported_dialect")
    model = rules.model(request.model)
    if wire.dialect in SPOKEN:
        headers = request_headers(headers, wire.headers)
    if wire.dialect == "count_tokens":
        content = encode_upstream(wire, "count_tokens", model=model, stream=False)
        return Operation("count_tokens", headers, content, CountAnswer(place, model))
    content = encode_upstream(wire, "messages", model=model, max_tokens=_bound(request, wire, rules))
    answer = MessageRelay(
        "messages",
        reader("messages", partial(_reported, place)),
        translator("messages", wire.dialect, model=model, wire=wire),
        model,
    )
    return Operation("messages", headers, content, answer)


def _bound(request: ModelRequest, wire: WireRequest, rules: MessageRules) -> int | None:
    """The bound on the output in tokens that the request does not say itself, where it has to say one."""
    if any(wire.fields.get(name, _NULL) != _NULL for name in _BOUNDS):
        return None
    if wire.dialect == "messages":
        return request.max_tokens
    return request.max_tokens if request.max_tokens is not None else rules.default_max_tokens


def _reported(place: Place, value: Any, usage: Usage | None, partial: str) -> ModelError:
    return error_from_event(value, place, usage, partial)
