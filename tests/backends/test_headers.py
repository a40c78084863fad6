"""Rate-limit headers into readings and waits: the forms providers really send, and garbage."""

from email.utils import formatdate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.backends.headers import (
    exhausted_kinds,
    parse_duration,
    parse_number,
    parse_reset,
    read_limits,
    read_retry_after,
    time_to_room,
)
from orchestrator.policy.feedback import Reading

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("88ms", 0.088),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1h2m3.5s", 3723.5),
        ("1d", 86400.0),
        ("250us", 0.00025),
        ("0s", 0.0),
        (" 2s ", 2.0),
    ],
)
def test_R22_reset_durations(text: str, seconds: float) -> None:
    """Each form of duration that providers send is read exactly."""
    assert parse_duration(text) == pytest.approx(seconds)
    assert parse_reset(text, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "soon", "1x", "m", "s1", "1m 30s", "-5s", "nan", "inf", "1e5", "٣s", "9" * 400]
)
def test_R22_garbage_is_unknown_and_never_zero(text: str) -> None:
    """What makes no sense is None for every parser."""
    assert parse_duration(text) is None
    assert parse_number(text) is None
    assert parse_reset(text, NOW) is None
    assert read_retry_after({"retry-after": text}, NOW) is None
    assert read_limits({"x-ratelimit-remaining-requests": text}, NOW) == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": formatdate(NOW + 20, usegmt=True)}, 20.0),
        ({"retry-after": formatdate(NOW - 20, usegmt=True)}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "later"}, None),
        ({}, None),
    ],
)
def test_R22_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, milliseconds, a date ahead, a date behind, garbage and nothing."""
    assert read_retry_after(headers, NOW) == seconds


def test_openai_headers_become_two_readings() -> None:
    """Requests and total tokens, each with limit, remaining and reset."""
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert read_limits(headers, NOW) == [
        Reading("requests", 500, 499, 0.12),
        Reading("total_tokens", 30000, 0, 360),
    ]


def test_anthropic_headers_become_three_readings() -> None:
    """Requests, input and output tokens, with resets as points in time; its `tokens` group names no limit."""
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:50Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:13:10+00:00",
        "anthropic-ratelimit-output-tokens-limit": "8000",
        "anthropic-ratelimit-tokens-limit": "1",
    }
    assert read_limits(headers, NOW) == [
        Reading("requests", 50, 49, 30),
        Reading("input_tokens", None, 0, 0),
        Reading("output_tokens", 8000, None, None),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), (str(int(NOW) + 30), 30), (str(int(NOW) - 30), 0), (str((int(NOW) + 30) * 1000), 30)],
)
def test_a_bare_number_is_seconds_or_an_epoch(text: str, seconds: float) -> None:
    """A number too large to be a span is a point in time, in seconds or milliseconds."""
    assert parse_reset(text, NOW) == seconds


def test_R23_the_exhausted_limit_decides_the_wait() -> None:
    """With tokens at 0 their 88 ms count; with nothing known to be exhausted, the later reset; with no reset, None."""
    resets = {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "88ms"}
    unknown = read_limits(resets, NOW)
    assert exhausted_kinds(unknown) == frozenset()
    assert time_to_room(unknown, frozenset()) == 360
    named = read_limits({**resets, "x-ratelimit-remaining-tokens": "0"}, NOW)
    assert exhausted_kinds(named) == {"total_tokens"}
    assert time_to_room(named, exhausted_kinds(named)) == 0.088
    bare = read_limits({"x-ratelimit-remaining-tokens": "0"}, NOW)
    assert exhausted_kinds(bare) == {"total_tokens"}
    assert time_to_room(bare, exhausted_kinds(bare)) is None


_NAMES = st.sampled_from(
    [
        "retry-after",
        "retry-after-ms",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-limit-tokens",
        "anthropic-ratelimit-requests-reset",
    ]
)
_VALUES = st.one_of(
    st.text(max_size=80),
    st.text("0123456789.smhdunμ-:TZ+ ,GMTonJa", max_size=30),
    st.datetimes().map(lambda d: d.isoformat()),
    st.floats(0, 1e300).map(str),
)


@settings(deadline=None)
@given(st.dictionaries(_NAMES, _VALUES))
@example({"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"})
@example({"x-ratelimit-reset-tokens": "0001-01-01T00:00:00+23:59"})
def test_no_header_value_raises_or_yields_nonsense(headers: dict[str, str]) -> None:
    """Whatever the values, numbers that come out are finite and not negative."""
    wait = read_retry_after(headers, NOW)
    numbers = [wait]
    for reading in read_limits(headers, NOW):
        numbers += [reading.limit, reading.remaining, reading.reset]
    assert all(number is None or 0 <= number < float("inf") for number in numbers)
