"""Errors in the shape that each dialect's own provider gives them, so that its SDK raises what its program expects.

| status | OpenAI: `type`, `code`                            | Anthropic: `type`          |
|--------|---------------------------------------------------|----------------------------|
| 400    | `invalid_request_error`                           | `invalid_request_error`    |
| 401    | `invalid_request_error`, `invalid_api_key`        | `authentication_error`     |
| 402    | `insufficient_quota`, `insufficient_quota`        | `billing_error`            |
| 403    | `permission_error`, `permission_denied`           | `permission_error`         |
| 404    | `invalid_request_error`, `model_not_found`        | `not_found_error`          |
| 408    | `invalid_request_error`                           | `timeout_error`            |
| 413    | `invalid_request_error`, `request_too_large`      | `request_too_large`        |
| 429    | `requests` or `tokens`, `rate_limit_exceeded`     | `rate_limit_error`         |
| 503    | `server_error`                                    | `api_error`                |
| 504    | `server_error`, `timeout`                         | `timeout_error`            |
| 529    | (is 503)                                          | `overloaded_error`         |
| others | `invalid_request_error` below 500, `server_error` | the same, and `api_error`  |

Where the table names no code, the code is the error's `kind`, or what `code` says. Anthropic's shape carries it as
`error.details.error_code`, which its SDK shows as `error_code`.

Both SDKs try again after 408, 409, 429 and every status of 500 and more, unless `x-should-retry: false` stands beside
it. They wait for `retry-after-ms`, else `retry-after` (seconds or a date); a wait above 120 s OpenAI's SDK refuses.

Sources: the OpenAI API reference, "Error codes"; the Claude API reference, "Errors".
"""

from typing import Any, Final

import msgspec

from agents.messages import Dialect, WireEvent
from orchestrator.dialects.text import scrub

OVERLOADED: Final = 529

_OPENAI_TYPES: Final = {402: "insufficient_quota", 403: "permission_error", 429: "requests"}
_OPENAI_CODES: Final = {
    "unknown_model": "model_not_found",
    "throttled": "rate_limit_exceeded",
    "queue_full": "rate_limit_exceeded",
    "too_large": "request_too_large",
    "body_too_large": "request_too_large",
}
_OPENAI_CODES_BY_STATUS: Final = {
    401: "invalid_api_key",
    402: "insufficient_quota",
    403: "permission_denied",
    413: "request_too_large",
    429: "rate_limit_exceeded",
    504: "timeout",
}
_MESSAGES_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}
_TYPES_BY_CODE: Final = {"insufficient_quota": "insufficient_quota", "tokens": "tokens"}

_encoder = msgspec.json.Encoder()


def speaks_anthropic(dialect: Dialect) -> bool:
    """Whether errors of this dialect have Anthropic's shape; else they have OpenAI's."""
    return dialect in ("messages", "count_tokens")


def status_for(dialect: Dialect, status: int, kind: str) -> int:
    """The HTTP status of an error in this dialect: Anthropic has one of its own for a provider without capacity."""
    if speaks_anthropic(dialect):
        return OVERLOADED if kind == "overloaded" else status
    return 503 if status == OVERLOADED else status


def error_document(
    dialect: Dialect,
    status: int,
    kind: str,
    message: str,
    *,
    field: str = "",
    code: str = "",
    request_id: str = "",
) -> bytes:
    """The body of an answer that is an error.

    `kind` is the error's stable word (see `agents.errors`), `field` the path of the member that was wrong, `code` the
    provider's own word where it said one.
    """
    if speaks_anthropic(dialect):
        return _encoder.encode(_anthropic(status, kind, message, field, code, request_id))
    return _encoder.encode({"error": _openai(status, kind, message, field, code)})


def error_event(
    dialect: Dialect,
    status: int,
    kind: str,
    message: str,
    *,
    field: str = "",
    code: str = "",
    request_id: str = "",
    sequence: int = 0,
) -> WireEvent:
    """The error as the last event of a stream that began well. `sequence` is its number, for `responses`.

    The event of `responses` says everything twice: flat, as the reference has it, and as the member `error`, at which
    OpenAI's SDK raises. Without that a program that looks at the text alone would take half an answer for a whole one.
    """
    if speaks_anthropic(dialect):
        return WireEvent("error", _encoder.encode(_anthropic(status, kind, message, field, code, request_id)))
    error = _openai(status, kind, message, field, code)
    if dialect != "responses":
        return WireEvent("", _encoder.encode({"error": error}))
    flat = {name: error[name] for name in ("code", "message", "param")}
    return WireEvent("error", _encoder.encode({"type": "error", "sequence_number": sequence, **flat, "error": error}))


def _openai(status: int, kind: str, message: str, field: str, code: str) -> dict[str, Any]:
    word = code or _OPENAI_CODES.get(kind) or _OPENAI_CODES_BY_STATUS.get(status) or kind
    default = "server_error" if status >= 500 else "invalid_request_error"
    return {
        "message": scrub(message),
        "type": _TYPES_BY_CODE.get(word) or _OPENAI_TYPES.get(status, default),
        "param": scrub(field) or None,
        "code": scrub(word) or None,
    }


def _anthropic(status: int, kind: str, message: str, field: str, code: str, request_id: str) -> dict[str, Any]:
    default = "api_error" if status >= 500 else "invalid_request_error"
    kind_of_error = "overloaded_error" if kind == "overloaded" else _MESSAGES_TYPES.get(status, default)
    error: dict[str, Any] = {"type": kind_of_error, "message": scrub(message)}
    details = {"error_code": scrub(code or kind), "field": scrub(field)}
    error["details"] = {name: value for name, value in details.items() if value}
    return {"type": "error", "error": error, "request_id": request_id or None}
