"""Failures of an OpenAI-compatible server, split by blame from status and structured code, never from prose.

| status, or what the code stands for | error                                          |
|-------------------------------------|------------------------------------------------|
| quota or billing code, 402          | Refused, the endpoint's fault                  |
| context overflow code               | Refused with code `context_length_exceeded`    |
| 429                                 | Throttled                                      |
| 503, 529                            | Overloaded                                     |
| 408, 409, 425, other 5xx            | Unavailable                                    |
| 401, 403, 3xx                       | Refused, the endpoint's fault                  |
| other 4xx, 501, 505                 | Refused                                        |
| in a stream, nothing of these       | Unavailable                                    |

A 429 whose text speaks of quota but whose code does not is a 429: providers use such words for passing conditions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agents.errors import ModelError, Overloaded, Refused, Throttled, Unavailable
from agents.messages import Usage
from orchestrator.backends.headers import exhausted_kinds, time_to_room
from orchestrator.backends.openai_text import scrub
from orchestrator.backends.openai_wire import NotJSON, loads
from orchestrator.backends.secret import Secret, excerpt
from orchestrator.policy.feedback import LimitKind, Reading

CONTEXT_OVERFLOW = "context_length_exceeded"

_QUOTA = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "insufficient_balance",
        "insufficient_credits",
        "payment_required",
    }
)
_OVERFLOW = frozenset({CONTEXT_OVERFLOW, "exceed_context_size_error", "context_window_exceeded"})
_STATUS_OF_WORD = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "overloaded": 529,
    "overloaded_error": 529,
    "engine_overloaded": 529,
    "queue_full": 503,
    "service_unavailable": 503,
    "unavailable": 503,
    "unavailable_error": 503,
    "invalid_request_error": 400,
    "invalid_request": 400,
    "bad_request": 400,
    "badrequesterror": 400,
    "invalid_argument": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthorized": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "notfounderror": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "timeout_error": 504,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "internalservererror": 500,
    "api_error": 500,
}
_LIMIT_OF_WORD: dict[str, LimitKind] = {
    "requests": "requests",
    "tokens": "total_tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}


class Place(Struct, frozen=True):
    """Who answered, for messages: the endpoint's host, and what must never be quoted."""

    host: str
    secrets: tuple[Secret, ...] = ()

    def quote(self, text: str) -> str:
        return excerpt(scrub(text), self.secrets)


class Facts(Struct, frozen=True):
    """What is structured in an error. `code` is the server's most telling word, `words` all of them in lower case."""

    status: int | None = None
    code: str | None = None
    words: frozenset[str] = frozenset()
    text: str = ""


def facts_of(value: Any) -> Facts:
    """Reads an error object in any of the shapes servers use: the object, the wrapper around it, or a bare string."""
    if isinstance(value, Mapping) and value.get("error"):
        value = value["error"]
    if isinstance(value, str):
        return Facts(text=value)
    if not isinstance(value, Mapping):
        return Facts()
    status: int | None = None
    words: list[str] = []
    for field in ("code", "type", "status"):
        found = value.get(field)
        number = _status(found)
        if number is not None:
            status = status or number
        elif isinstance(found, str) and found:
            words.append(scrub(found).lower()[:100])
    text = next((value[f] for f in ("message", "detail", "msg") if isinstance(value.get(f), str)), "")
    return Facts(status, words[0] if words else None, frozenset(words), text)


def error_from_response(
    status: int, body: bytes, place: Place, readings: Sequence[Reading] = (), retry_after: float | None = None
) -> ModelError:
    """The error that a response with this status stands for."""
    try:
        facts = facts_of(loads(body))
    except NotJSON:
        facts = Facts(text=body.decode("utf-8", "replace"))
    return _error(status, facts, f"{place.host} answered {status}", place, readings, retry_after)


def error_from_event(value: Any, place: Place, usage: Usage | None, partial: str) -> ModelError:
    """The error that an error object inside a successful response stands for, with what had come before it."""
    facts = facts_of(value)
    status = facts.status
    if status is None:
        status = next((_STATUS_OF_WORD[word] for word in facts.words if word in _STATUS_OF_WORD), None)
    error = _error(status, facts, f"{place.host} broke off with an error", place, (), None)
    error.usage = usage
    error.partial = partial
    return error


def _error(
    status: int | None,
    facts: Facts,
    said: str,
    place: Place,
    readings: Sequence[Reading],
    retry_after: float | None,
) -> ModelError:
    code = facts.code
    message = f"{said} ({place.quote(code)})" if code else said
    if facts.text.strip():
        message = f"{message}: {place.quote(facts.text)}"
    if facts.words & _QUOTA or status == 402:
        return Refused(message, status=status, code=code, endpoint_fault=True)
    if facts.words & _OVERFLOW:
        return Refused(message, status=status, code=CONTEXT_OVERFLOW)
    if status == 429:
        named = {_LIMIT_OF_WORD[word] for word in facts.words if word in _LIMIT_OF_WORD}
        exhausted = exhausted_kinds(readings) | named
        wait = retry_after if retry_after is not None else time_to_room(readings, exhausted)
        return Throttled(message, retry_after=wait, exhausted=frozenset(exhausted), status=status, code=code)
    if status in (503, 529):
        return Overloaded(message, status=status, code=code, retry_after=retry_after)
    if status is None or status in _PASSING or (status >= 500 and status not in _LASTING) or 100 <= status < 300:
        return Unavailable(message, status=status, code=code)
    return Refused(message, status=status, code=code, endpoint_fault=status in (401, 403) or status < 400)


_PASSING = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505})
"""Server errors that say what the server cannot do, now or later."""


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 300 <= value <= 599:
        return value
    return None
