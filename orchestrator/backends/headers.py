"""What response headers say about a provider's limits, as data: pure, with the wall clock's `now` passed in.

Sources: RFC 9110 section 10.2.3 (`retry-after`: seconds or a date), OpenAI's guide "Rate limits"
(`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, resets as Go durations like `6m0s`), Anthropic's "Rate
limits" (`anthropic-ratelimit-{requests,input-tokens,output-tokens}-{limit,remaining,reset}`, resets as RFC 3339
times; its `tokens` group shows whichever limit is tightest, so it names no limit and is left out here: only a 429 is
read for it, in `errors.py`).

Headers are a mapping with names in lower case. What makes no sense is None, never an exception and never 0: a guess
of 0 would send a storm of retries. `now` is in seconds since the epoch, as `time.time()` gives it.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from orchestrator.policy.feedback import LimitKind, Reading

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)", re.ASCII)
_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# A bare number this large is a point in time, not a span: 10^9 s is 31 years.
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e12

_LONGEST_VALUE = 64

_GROUPS: tuple[tuple[LimitKind, str, str, str], ...] = (
    (
        "requests",
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    (
        "total_tokens",
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ),
    (
        "requests",
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        "input_tokens",
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "output_tokens",
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
)


def read_limits(headers: Mapping[str, str], now: float) -> list[Reading]:
    """One `Reading` for each limit of which the headers say anything that makes sense."""
    readings: list[Reading] = []
    for kind, limit_name, remaining_name, reset_name in _GROUPS:
        limit = parse_number(headers.get(limit_name))
        remaining = parse_number(headers.get(remaining_name))
        reset = parse_reset(headers.get(reset_name), now)
        if limit is not None or remaining is not None or reset is not None:
            readings.append(Reading(kind, limit, remaining, reset))
    return readings


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait as `retry-after-ms` or `retry-after` say; 0 for a date that has passed, None for garbage."""
    milliseconds = parse_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = parse_number(text)
    return seconds if seconds is not None else _until_http_date(text, now)


def exhausted_kinds(readings: Iterable[Reading]) -> frozenset[LimitKind]:
    """The limits of which nothing is left."""
    return frozenset(reading.kind for reading in readings if reading.remaining == 0)


def time_to_room(readings: Collection[Reading], exhausted: Collection[LimitKind]) -> float | None:
    """Seconds until the exhausted limits have reset; the latest reset of all while none is known to be exhausted."""
    resets = [r.reset for r in readings if r.reset is not None and (not exhausted or r.kind in exhausted)]
    return max(resets, default=None)


def parse_number(text: str | None) -> float | None:
    """A plain decimal number; no sign, no exponent, no NaN."""
    if text is None:
        return None
    text = text.strip()
    if len(text) > _LONGEST_VALUE or not _NUMBER.fullmatch(text):
        return None
    return float(text)


def parse_duration(text: str | None) -> float | None:
    """Seconds of a Go duration (`6m0s`, `88ms`, `1h2m3.5s`)."""
    if text is None:
        return None
    text = text.strip()
    if not text or len(text) > _LONGEST_VALUE:
        return None
    total, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            return None
        total += float(part[1]) * _UNIT[part[2]]
        end = part.end()
    return total if end == len(text) else None


def parse_reset(text: str | None, now: float) -> float | None:
    """Seconds until a limit is full again, from a duration, a number of seconds, an epoch or an RFC 3339 time."""
    duration = parse_duration(text)
    if duration is not None:
        return duration
    number = parse_number(text)
    if number is None:
        return _until_timestamp(text, now)
    if number >= _EPOCH_MILLISECONDS:
        return max(0.0, number / 1000 - now)
    if number >= _EPOCH_SECONDS:
        return max(0.0, number - now)
    return number


def _until_http_date(text: str | None, now: float) -> float | None:
    if text is None or len(text) > _LONGEST_VALUE:
        return None
    try:
        return _until(parsedate_to_datetime(text), now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until_timestamp(text: str | None, now: float) -> float | None:
    if text is None or len(text) > _LONGEST_VALUE:
        return None
    try:
        return _until(datetime.fromisoformat(text.strip()), now)
    except (ValueError, OverflowError):
        return None


def _until(moment: datetime, now: float) -> float | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = moment.timestamp() - now
    return max(0.0, seconds) if math.isfinite(seconds) else None
