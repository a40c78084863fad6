"""Events as JSON: the same event comes back, and what is not understood is refused."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.events import Event, RunCreated, UnknownEvent, decode, encode

EVERY = get_args(Event)
plain = st.text(st.characters(codec="utf-8"), max_size=8)
st.register_type_strategy(str, plain)
st.register_type_strategy(int, st.integers(0, 2**40))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
whole = st.integers(1, 2**40)
limits = st.builds(
    Limits,
    rounds=st.none() | whole,
    tool_calls=st.none() | whole,
    tokens=st.none() | whole,
    micro_dollars=st.none() | whole,
    timeout=st.none() | st.floats(0.001, 1e9),
)
st.register_type_strategy(Limits, limits)


@settings(max_examples=60)
@given(st.one_of(*(st.from_type(kind) for kind in EVERY)))
def test_an_event_survives_its_json(event: Event) -> None:
    """Decoding what was encoded gives an equal event, and equal bytes again."""
    data = encode(event)
    assert msgspec.json.decode(data)["type"] == type(event).__struct_config__.tag
    if isinstance(event, RunCreated) and event.version != 1:
        with pytest.raises(UnknownEvent, match="version"):
            decode(data)
        return
    assert decode(data) == event
    assert encode(decode(data)) == data


@pytest.mark.parametrize(
    "data", ['{"type":"run_teleported","run":"r"}', '{"run":"r"}', '{"type":"run_ended","run":"r","reason":"bored"}']
)
def test_an_unknown_event_stops_the_reader(data: str) -> None:
    """A type or word that this version does not know is an error, never skipped."""
    with pytest.raises(UnknownEvent):
        decode(data)
