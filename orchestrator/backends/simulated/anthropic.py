"""Anthropic's errors and headers from the provider's side.

Source: Anthropic's API reference, "Errors" and "Rate limits". Two known differences: remaining tokens are exact (the
real ones are rounded to thousands), and an error's type follows from its status alone unless a fault names one.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from orchestrator.backends.simulated.errors import SimError
from orchestrator.backends.simulated.wire import Headers, anthropic_headers, tightest
from orchestrator.policy.feedback import Reading

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicManners:
    """See `Manners`."""

    def error_body(self, error: SimError, request_id: str) -> bytes:
        return msgspec.json.encode({**error_object(error), "request_id": request_id})

    def limit_headers(self, readings: Sequence[Reading]) -> Headers:
        """The rate-limit headers. `tokens` is the limit on both together, or what the two limits come to."""
        found = tightest(readings)
        headers: Headers = []
        for reading in found:
            name = "tokens" if reading.kind == "total_tokens" else reading.kind.replace("_", "-")
            headers += anthropic_headers(name, reading)
        parts = [reading for reading in found if reading.kind in ("input_tokens", "output_tokens")]
        if len(parts) == 2 and all(reading.kind != "total_tokens" for reading in found):
            headers += anthropic_headers("tokens", _together(parts))
        return headers

    def retry_headers(self, seconds: float) -> Headers:
        """`retry-after` in whole seconds, never too short."""
        return [("retry-after", f"{math.ceil(seconds)}")]

    def request_headers(self, request_id: str) -> Headers:
        return [("request-id", request_id)]


def error_object(error: SimError) -> dict[str, Any]:
    """The error, in Anthropic's shape."""
    kind = error.code if error.code in _TYPES.values() else _type_of(error.status)
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


def _type_of(status: int) -> str:
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _together(readings: Sequence[Reading]) -> Reading:
    return Reading(
        "total_tokens",
        sum(reading.limit or 0.0 for reading in readings),
        sum(reading.remaining or 0.0 for reading in readings),
        max(reading.reset or 0.0 for reading in readings),
    )
