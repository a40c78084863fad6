"""What an error object of a model server says, in any of the shapes servers use: pure, and split by blame.

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

It is decided from status and structured code, never from prose. A 429 whose text speaks of quota but whose code does
not is a 429: providers use such words for passing conditions.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from agents.errors import ModelError, Overloaded, Refused, Throttled, Unavailable
from agents.messages import Usage
from orchestrator.dialects.text import scrub

Failed = Callable[[Any, Usage | None, str], ModelError]
"""Makes the error that an error object inside an answer stands for, with the usage and the text that came before it."""

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

_LONGEST_QUOTE = 300

_PASSING = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505})
"""Server errors that say what the server cannot do, now or later."""


class Facts(Struct, frozen=True):
    """What is structured in an error. `code` is the server's most telling word, `words` all of them in lower case."""

    status: int | None = None
    code: str | None = None
    words: frozenset[str] = frozenset()
    text: str = ""

    def meant(self) -> int | None:
        """The HTTP status that it stands for, said as a number or by a word that is known; None for neither."""
        if self.status is not None:
            return self.status
        return next((_STATUS_OF_WORD[word] for word in self.words if word in _STATUS_OF_WORD), None)


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


def error_of(
    status: int | None,
    facts: Facts,
    message: str,
    *,
    retry_after: float | None = None,
    exhausted: frozenset[str] = frozenset(),
) -> ModelError:
    """The error of a failure with this status and these facts, by the table above. `retry_after` in seconds."""
    code = facts.code
    if facts.words & _QUOTA or status == 402:
        return Refused(message, status=status, code=code, endpoint_fault=True)
    if facts.words & _OVERFLOW:
        return Refused(message, status=status, code=CONTEXT_OVERFLOW)
    if status == 429:
        return Throttled(message, retry_after=retry_after, exhausted=exhausted, status=status, code=code)
    if status in (503, 529):
        return Overloaded(message, status=status, code=code, retry_after=retry_after)
    if status is None or status in _PASSING or (status >= 500 and status not in _LASTING) or 100 <= status < 300:
        return Unavailable(message, status=status, code=code)
    return Refused(message, status=status, code=code, endpoint_fault=status in (401, 403) or status < 400)


def broke_off(value: Any, usage: Usage | None, partial: str) -> ModelError:
    """A `Failed` that quotes the code and the first part of the text; use it where no secret can be in them."""
    facts = facts_of(value)
    said = "the model server broke off with an error"
    message = f"{said} ({facts.code})" if facts.code else said
    if facts.text.strip():
        message = f"{message}: {scrub(facts.text)[:_LONGEST_QUOTE]}"
    error = error_of(facts.meant(), facts, message)
    error.usage = usage
    error.partial = partial
    return error


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 300 <= value <= 599:
        return value
    return None
