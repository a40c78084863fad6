"""Amounts on the command line mean what they say, or are refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.amounts import Limits
from orchestrator.cli.amounts import limit_words, limits_of, seconds_of
from orchestrator.cli.options import WrongOption

LIMITS = st.builds(
    Limits,
    rounds=st.none() | st.integers(1, 10**9),
    tool_calls=st.none() | st.integers(0, 10**9),
    tokens=st.none() | st.integers(1, 10**12),
    micro_dollars=st.none() | st.integers(0, 10**11),
    timeout=st.none() | st.integers(1, 10**6).map(float),
)


@given(LIMITS, st.booleans())
def test_limits_come_back_from_their_words(limits: Limits, in_one: bool) -> None:
    """What `limit_words` writes, `limits_of` reads as the same limits, in one text or in several."""
    words = limit_words(limits)
    given = ([words] if in_one else words.split(", ")) if words else []
    assert limits_of("--grant", given) == limits


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (["rounds=10"], Limits(rounds=10)),
        (["rounds=10,tokens=5000", "dollars=0.50"], Limits(rounds=10, tokens=5000, micro_dollars=500_000)),
        (["tool-calls=0"], Limits(tool_calls=0)),
        (["tool_calls = 3"], Limits(tool_calls=3)),
        (["timeout=90"], Limits(timeout=90)),
        (["timeout=1.5h"], Limits(timeout=5400)),
        (["timeout=30s"], Limits(timeout=30)),
        ([], Limits()),
    ],
)
def test_limits_are_read(given: list[str], limits: Limits) -> None:
    """Names, commas, dashes and units are read as a person means them."""
    assert limits_of("--grant", given) == limits


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "one of rounds=N, "),
        ("10", "not '10'"),
        ("round=10", "not 'round=10'"),
        ("rounds", "not 'rounds'"),
        ("rounds=", "rounds takes a whole number, not ''"),
        ("rounds=1.5", "rounds takes a whole number"),
        ("rounds=-1", "rounds takes a whole number"),
        ("rounds=1e3", "rounds takes a whole number"),
        ("rounds=٣", "rounds takes a whole number"),
        ("rounds=10m", "rounds takes a whole number"),
        ("rounds=0", "rounds: a whole number, 1 or more, not 0"),
        ("rounds=1,rounds=2", "rounds is given twice"),
        ("dollars=nan", "dollars takes an amount like 0.50"),
        ("dollars=1000000", "less than 1,000,000 dollars"),
        ("timeout=0", "more than 0 seconds"),
        ("timeout=1y", "timeout takes seconds, or a span like 10m"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_name(text: str, says: str) -> None:
    """The message begins with the option, names the part at fault and what would be right."""
    with pytest.raises(WrongOption) as caught:
        limits_of("--grant", [text])
    assert caught.value.message.startswith("--grant: ")
    assert says in caught.value.message


@pytest.mark.parametrize(("text", "seconds"), [("5m", 300), ("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200)])
def test_spans_are_read(text: str, seconds: float) -> None:
    """A number and its unit are so many seconds."""
    assert seconds_of("--older-than", text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5d", "30 d", "1y", "999999w"])
def test_a_span_that_is_none_is_refused(text: str) -> None:
    """A span without a unit, without an amount or beyond all measure is refused under its option's name."""
    with pytest.raises(WrongOption, match=r"^--older-than: a number with m, h, d or w"):
        seconds_of("--older-than", text)
