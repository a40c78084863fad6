"""Errors as HTTP answers: which status, and one `ErrorAnswer` for all.

| what happened                                                  | status | why                                   |
|----------------------------------------------------------------|--------|---------------------------------------|
| a field, template, input or body makes no sense                | 400    | the client can correct it             |
| no key where one is asked for, or one that does not hold       | 401    | `WWW-Authenticate` says how to send it |
| a foreign page or host name                                    | 403    | see `guard`                           |
| another tenant's name, what only an admin's key may            | 403    | the key is good, and not for this     |
| no such path, run, session, job, agent or model                | 404    |                                       |
| the path knows no such method                                  | 405    | `Allow` names those it knows          |
| the body did not arrive in time                                | 408    | the client was slow, and only it      |
| an id exists already, an upload's offset is not the next one   | 409    | the client's picture is out of date   |
| a job has ended, or has not, or has all its inputs             | 409    | likewise                              |
| a request of people was decided otherwise, or asks another thing | 409    | likewise                              |
| a worker's claim to a run does not count any more               | 409    | it drops the run                      |
| a run of the session is open, or its log cannot be gone on with | 409    | likewise                              |
| more bytes, or a larger call, than could ever be let in        | 413    | the same again fails again            |
| the tenant's queue is full; the provider throttled to the end  | 429    | slow down: `Retry-After`              |
| the tenant's budget is spent                                   | 429    | not again: `x-should-retry: false`    |
| anything unexpected                                            | 500    | no details: they are in the log       |
| the provider refuses this daemon's key or account              | 502    | not the client's fault, nor in its reach |
| the provider failed, broke off or fell silent, to the last try | 502    | it serves, and served this one badly  |
| draining, no endpoint can serve, the owner has ended           | 503    | try again, later or elsewhere         |
| the store cannot be reached, or somebody else has it now       | 503    | likewise                              |
| a deadline or a clock ran out                                  | 504    | the answer did not come in time       |
| the daemon's disk is full or read-only, its store is damaged   | 507    | whoever operates it has to look       |

A deadline is 504 and not 408: 408 says that the *client* was slow to send, and some clients then send again at once.
A provider's refusal of the request itself is 400 (413 where it says so) whatever its own status was: a provider's 401
or 404 speaks of a key and a URL that are this daemon's, and must not be read as being about the daemon's own paths.

A status is looked up by the error's `kind` (its class's name in snake case where it has none), then by those of its
bases, so an error of another room needs no import here.
"""

import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog
from starlette.responses import Response

from agents.errors import BudgetExceeded, HeadraceError, Refused, Unavailable
from orchestrator.views.errors import ErrorAnswer, ErrorBody

RETRY_AFTER_AT_MOST: Final = 120

STATUS: Final[Mapping[str, int]] = {
    "invalid_limits": 400,
    "template_error": 400,
    "input_error": 400,
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "foreign_host": 403,
    "foreign_origin": 403,
    "not_found": 404,
    "unknown_run": 404,
    "unknown_call": 404,
    "unknown_approval": 404,
    "unknown_session": 404,
    "unknown_job": 404,
    "unknown_agent": 404,
    "unknown_model": 404,
    "method_not_allowed": 405,
    "slow_body": 408,
    "no_pool": 404,
    "unknown_child": 404,
    "duplicate_run": 409,
    "claim_gone": 409,
    "name_taken": 409,
    "duplicate_job": 409,
    "wrong_offset": 409,
    "job_conflict": 409,
    "run_over": 409,
    "already_decided": 409,
    "not_asked": 409,
    "session_busy": 409,
    "duplicate_session": 409,
    "conflict": 409,
    "unknown_event": 409,
    "broken_log": 409,
    "cannot_continue": 409,
    "too_large": 413,
    "body_too_large": 413,
    "queue_full": 429,
    "throttled": 429,
    "budget_exceeded": 429,
    "truncated": 502,
    "silence_timeout": 502,
    "call_lost": 502,
    "draining": 503,
    "not_yet": 503,
    "overloaded": 503,
    "unavailable": 503,
    "owner_closed": 503,
    "fenced": 503,
    "store_locked": 503,
    "store_closed": 503,
    "store_away": 503,
    "queue_timeout": 504,
    "call_timeout": 504,
    "wrong_version": 505,
    "storage_error": 507,
    "store_error": 507,
    "journal_lost": 507,
}

INTERNAL: Final = ErrorBody(kind="internal_error", message="something went wrong inside; the daemon's log says what")

_log = structlog.get_logger("headrace.http")


class BadRequest(HeadraceError):
    """A body or a query that cannot be read as what was expected; `field` is the path of what was wrong."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class BodyTooLarge(HeadraceError):
    """The body has more bytes than allowed."""


class SlowBody(HeadraceError):
    """The body did not arrive in time."""


class Unauthorized(HeadraceError):
    """A key is asked for, and none that holds was sent. The message never says what is wrong with one that was."""


class Forbidden(HeadraceError):
    """The key is good, but not for this."""


class NotFound(HeadraceError):
    """There is nothing at this path."""


class MethodNotAllowed(HeadraceError):
    """The path is known, the method is not."""


def kind_of(error_type: type[BaseException]) -> str:
    """The stable word for an error."""
    kind = error_type.__dict__.get("kind")
    return kind if isinstance(kind, str) else re.sub(r"(?<!^)(?=[A-Z])", "_", error_type.__name__).lower()


def status_of(error: HeadraceError) -> int:
    """The status an error is answered with; 500 for one that nobody expected here."""
    if isinstance(error, Refused):
        if error.endpoint_fault:
            return 502
        return 413 if error.status == 413 else 400
    if isinstance(error, Unavailable) and error.status is not None:
        return 502
    for base in type(error).__mro__:
        status = STATUS.get(kind_of(base)) if issubclass(base, HeadraceError) else None
        if status is not None:
            return status
    return 500


def error_body(error: HeadraceError) -> ErrorBody:
    """What a client is told of an error."""
    if status_of(error) == 500:
        return INTERNAL
    field = getattr(error, "field", "")
    return ErrorBody(
        kind=kind_of(type(error)),
        message=error.message,
        field=field if isinstance(field, str) else "",
        retry_after=_retry_after(error),
    )


def error_json(error: Exception) -> bytes:
    """An `ErrorAnswer` for any error; what was not expected is logged and not told."""
    if not isinstance(error, HeadraceError) or status_of(error) == 500:
        log_unexpected(error)
        return msgspec.json.encode(ErrorAnswer(error=INTERNAL))
    return msgspec.json.encode(ErrorAnswer(error=error_body(error)))


def error_response(error: Exception, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that failed."""
    body = error_json(error)
    status, every = 500, dict(headers or {})
    if isinstance(error, HeadraceError):
        status = status_of(error)
        every |= error_headers(error)
    return Response(body, status, every, media_type="application/json")


def error_headers(error: HeadraceError) -> dict[str, str]:
    """The headers that go with an error, in every dialect."""
    if isinstance(error, Unauthorized):
        return {"www-authenticate": 'Bearer realm="headrace"'}
    if isinstance(error, BudgetExceeded):
        return {"x-should-retry": "false"}
    seconds = _retry_after(error)
    return {} if seconds is None else {"retry-after": str(seconds)}


def unreadable_document(status: int) -> bytes:
    """The body of an answer to a request whose head could not be read, so that nobody knows whom it was for.

    It can be read as any client's error: `kind` is ours, the others OpenAI's and Anthropic's.
    """
    why = "the request's head is too large" if status == 431 else "the request is not HTTP as it should be"
    error = {"kind": "bad_http", "message": why, "type": "invalid_request_error", "param": None, "code": "bad_http"}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": None})


def log_unexpected(error: BaseException, **where: str) -> None:
    """Writes an error that nobody expected to the log, with its traceback."""
    _log.error("request failed", exc_info=error, **where)


def _retry_after(error: HeadraceError) -> int | None:
    seconds = getattr(error, "retry_after", None)
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        return None
    return math.ceil(min(max(seconds, 1.0), RETRY_AFTER_AT_MOST))
