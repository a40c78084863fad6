"""OpenAI's errors and headers from the provider's side.

Source: OpenAI's API reference, "Debugging requests", and the guide "Rate limits" for the headers. Limits that OpenAI
has no header for (input and output tokens) are reported under Anthropic's names.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from orchestrator.backends.simulated.errors import SimError
from orchestrator.policy.feedback import Reading

Headers = list[tuple[str, str]]


class OpenAIManners:
    """See `Manners`."""

    def error_body(self, error: SimError, request_id: str) -> bytes:
        return msgspec.json.encode(error_object(error))

    def limit_headers(self, readings: Sequence[Reading]) -> Headers:
        """The rate-limit headers; where several limits share a name, those of the one with least left."""
        headers: Headers = []
        for reading in tightest(readings):
            kind, reset = reading.kind, reading.reset or 0.0
            if kind in ("input_tokens", "output_tokens"):
                headers += anthropic_headers(kind.replace("_", "-"), reading)
                continue
            name = "tokens" if kind == "total_tokens" else kind
            headers.append((f"x-ratelimit-limit-{name}", amount(reading.limit)))
            headers.append((f"x-ratelimit-remaining-{name}", amount(reading.remaining)))
            headers.append((f"x-ratelimit-reset-{name}", duration(reset)))
        return headers

    def retry_headers(self, seconds: float) -> Headers:
        """`retry-after` in whole seconds, never too short, and exactly in milliseconds."""
        return [("retry-after", f"{math.ceil(seconds)}"), ("retry-after-ms", f"{math.ceil(seconds * 1000)}")]

    def request_headers(self, request_id: str) -> Headers:
        return [("x-request-id", request_id)]


def error_object(error: SimError) -> dict[str, Any]:
    """The error object, in OpenAI's shape."""
    return {"error": error_members(error)}


def error_members(error: SimError) -> dict[str, Any]:
    """What stands inside it."""
    return {"message": str(error), "type": error.type, "param": error.param, "code": error.code}


def tightest(readings: Iterable[Reading]) -> list[Reading]:
    """One reading of each kind: that of the limit with least left."""
    found: dict[str, Reading] = {}
    for reading in readings:
        known = found.get(reading.kind)
        if known is None or _left(reading) < _left(known):
            found[reading.kind] = reading
    return list(found.values())


def anthropic_headers(name: str, reading: Reading) -> Headers:
    """One limit under Anthropic's names; the time at which it is full again is a moment, in RFC 3339."""
    prefix = f"anthropic-ratelimit-{name}"
    return [
        (f"{prefix}-limit", amount(reading.limit)),
        (f"{prefix}-remaining", amount(reading.remaining)),
        (f"{prefix}-reset", _timestamp(reading.reset or 0.0)),
    ]


def amount(value: float | None) -> str:
    """A whole number: never more than there is."""
    return f"{math.floor(value or 0)}"


def duration(seconds: float) -> str:
    """A span as OpenAI writes it: `88ms`, `1.5s`, `6m0s`, `2h0m5s`; rounded up to a millisecond."""
    milliseconds = math.ceil(seconds * 1000 - 1e-6)
    if milliseconds < 1000:
        return f"{max(0, milliseconds)}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    tail = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def _left(reading: Reading) -> float:
    return (reading.remaining or 0.0) / (reading.limit or 1.0)


def _timestamp(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=math.ceil(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
