"""How the simulated provider says no, before it is put on a wire or into an exception of the agents' taxonomy."""

import math

from orchestrator.backends.simulated.limits import Refusal
from orchestrator.policy.feedback import Reading


class SimError(Exception):
    """An error answer: what a real provider puts into the status line, the headers and the error object.

    `readings` is None where the answer carries no rate-limit headers. `in_stream` marks an error object inside a
    stream that began with status 200. `type` and `code` are structured, `param` is the path of the field that is
    wrong, the message is prose.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "",
        code: str | None = None,
        retry_after: float | None = None,
        readings: tuple[Reading, ...] | None = None,
        in_stream: bool = False,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type or _type_of(status)
        self.code = code
        self.retry_after = retry_after
        self.readings = readings
        self.in_stream = in_stream
        self.param = param


class Hangup(Exception):
    """The connection ends without another word; `reset` by a TCP reset, otherwise by a clean FIN."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__("reset" if reset else "closed")
        self.reset = reset


def invalid(message: str, code: str = "invalid_value", status: int = 400, *, param: str | None = None) -> SimError:
    """A request that is refused as it is."""
    return SimError(status, message, code=code, param=param)


def wrong(field: str, what: str) -> SimError:
    """A request that is refused for one field, by its path."""
    return invalid(f"{field}: {what}", param=field)


def throttled(refusal: Refusal, readings: tuple[Reading, ...]) -> SimError:
    """429 as OpenAI words it: `type` names the exhausted limit, `retry_after` the time until it has room.

    A call too large for a limit gets no time, since none would do; too many calls in flight gets none either, since
    nobody knows it.
    """
    wait = refusal.wait
    if refusal.kind is None:
        type_, message = "concurrency", "too many calls in flight"
    else:
        type_ = "tokens" if refusal.kind == "total_tokens" else refusal.kind
        message = f"rate limit reached on {refusal.kind.replace('_', ' ')}"
        if wait is not None and math.isinf(wait):
            message, wait = f"{message}: the request is larger than the limit", None
        else:
            message = f"{message}; try again in {wait:.3f} s"
    return SimError(429, message, type=type_, code="rate_limit_exceeded", retry_after=wait, readings=readings)


def _type_of(status: int) -> str:
    if status in (503, 529):
        return "overloaded_error"
    if status >= 500:
        return "server_error"
    if status in (401, 403):
        return "authentication_error"
    return "rate_limit_error" if status == 429 else "invalid_request_error"
