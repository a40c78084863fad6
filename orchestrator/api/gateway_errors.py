"""Errors of the gateway as its programs' SDKs expect them: status, headers, and their provider's own document.

Statuses are those of `errors`, but for two:

- What a provider says of the program's own request (400, 404, 413, 422) keeps its status, message and code: the program
  can act on it, and its SDK raises the same exception as without a daemon between them. What a provider says of the
  daemon's key or account (401, 403, no quota) is 502 without its text, which may name an account that is not the
  program's.
- A provider without capacity is 529 to Anthropic's SDK, and 503 to OpenAI's.

**Try again?** Both SDKs do after 408, 409, 429 and all from 500 on, unless `x-should-retry` says otherwise. It says
`false` where the same again cannot go better: a deadline that has passed, a key of the daemon's that is refused. How
long to wait is in `retry-after-ms`, which both prefer, and in `retry-after`, whole seconds, for everybody else; both at
most 120 s, since OpenAI's SDK does not wait longer.

Errors that come before any route (a wrong path, method or host) have the shape of the dialect that the path speaks, and
OpenAI's where that says nothing. Errors outside `/v1` are the `ErrorAnswer` of `/api`.
"""

import math
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Scope

from agents.errors import CallTimeout, HeadraceError, QueueTimeout, Refused
from agents.messages import Dialect
from orchestrator.api.errors import (
    INTERNAL,
    RETRY_AFTER_AT_MOST,
    error_headers,
    error_response,
    kind_of,
    log_unexpected,
    status_of,
)
from orchestrator.api.gateway_headers import request_id
from orchestrator.dialects.errors import error_document, error_event, status_for

GATEWAY: Final = "/v1"
PASSED_ON: Final = frozenset({400, 404, 413, 422})
OUR_KEY: Final = "the provider refuses this daemon's key or account; whoever runs the daemon has to look"

_DIALECTS: Final[Mapping[str, Dialect]] = {
    "messages": "messages",
    "responses": "responses",
    "embeddings": "embeddings",
}


def in_gateway(path: str) -> bool:
    """Whether a path belongs to the gateway."""
    return path == GATEWAY or path.startswith(GATEWAY + "/")


def dialect_of(scope: Scope) -> Dialect:
    """What the client of a request under `/v1` speaks, as far as path and headers say."""
    part = scope["path"].removeprefix(GATEWAY).strip("/").partition("/")[0]
    known = _DIALECTS.get(part)
    if known is not None:
        return known
    anthropic = any(name == b"anthropic-version" for name, _ in scope["headers"])
    return "messages" if anthropic else "chat"


def failure(scope: Scope, error: Exception, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that failed, in the shape that its client expects."""
    if not in_gateway(scope["path"]):
        return error_response(error, headers)
    dialect, said = dialect_of(scope), Said.of(error, scope)
    status = status_for(dialect, said.status, said.kind)
    document = error_document(
        dialect, status, said.kind, said.message, field=said.field, code=said.code, request_id=request_id(scope)
    )
    return Response(document, status, {**(headers or {}), **said.headers}, media_type="application/json")


def failure_event(scope: Scope, dialect: Dialect, error: Exception, sequence: int = 0) -> tuple[str, bytes]:
    """Name and data of the event that ends a stream which has begun."""
    said = Said.of(error, scope)
    event = error_event(
        dialect,
        status_for(dialect, said.status, said.kind),
        said.kind,
        said.message,
        field=said.field,
        code=said.code,
        request_id=request_id(scope),
        sequence=sequence,
    )
    return event.event, event.data


class Said:
    """What a program is told of an error, whatever its dialect."""

    __slots__ = ("code", "field", "headers", "kind", "message", "status")

    def __init__(self, status: int, kind: str, message: str) -> None:
        self.status = status
        self.kind = kind
        self.message = message
        self.field = ""
        self.code = ""
        self.headers: dict[str, str] = {}

    @classmethod
    def of(cls, error: Exception, scope: Scope) -> "Said":
        """What is told of it; what nobody expected is logged and not told."""
        if not isinstance(error, HeadraceError) or status_of(error) == 500:
            log_unexpected(error, path=scope["path"], request_id=request_id(scope))
            return cls(500, INTERNAL.kind, INTERNAL.message)
        if isinstance(error, Refused) and error.endpoint_fault:
            said = cls(502, "provider_refuses", OUR_KEY)
        else:
            said = cls(_status(error), kind_of(type(error)), error.message)
            said.field = _text(getattr(error, "field", ""))
            said.code = _text(getattr(error, "code", ""))
        said.headers = retry_headers(error)
        return said


def _status(error: HeadraceError) -> int:
    if isinstance(error, Refused) and error.status in PASSED_ON:
        return error.status
    return status_of(error)


def retry_headers(error: HeadraceError) -> dict[str, str]:
    """Whether and when to try again."""
    headers = error_headers(error)
    if isinstance(error, QueueTimeout | CallTimeout) or (isinstance(error, Refused) and error.endpoint_fault):
        headers["x-should-retry"] = "false"
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, int | float) and not math.isnan(seconds) and "retry-after" in headers:
        headers["retry-after-ms"] = str(math.ceil(1000 * min(max(seconds, 0.0), RETRY_AFTER_AT_MOST)))
    return headers


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
