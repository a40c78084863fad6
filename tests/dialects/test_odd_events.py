"""Events that no provider would send: whatever comes, the error is one that the adapter expects."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ModelError
from agents.messages import Dialect, WireEvent
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.chat_wire import NotJSON
from orchestrator.dialects.readers import reader
from orchestrator.dialects.translators import translator
from tests.dialects.dialect_events import request

EXAMPLES = 25

# fmt: off
_NAMES = [
    "choices", "delta", "message", "index", "content", "text", "tool_calls", "function", "name", "arguments", "id",
    "finish_reason", "usage", "error", "object", "type", "content_block", "partial_json", "thinking", "signature",
    "citations", "citation", "stop_reason", "prompt_tokens", "output_tokens", "input", "prompt_tokens_details",
    "logprobs", "custom", "refusal", "reasoning",
]
_WORDS = st.sampled_from([
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "text", "tool_use", "text_delta", "input_json_delta", "citations_delta", "stop", "{", "}", "\ud83d",
])
# fmt: on
_LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | _WORDS
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=12,
)
_EVENTS = st.builds(
    lambda members, cut: WireEvent("", json.dumps(members).encode()[: cut or None]),
    st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=5)
    | st.fixed_dictionaries({"choices": st.lists(st.dictionaries(st.sampled_from(_NAMES), _VALUES), max_size=2)})
    | st.fixed_dictionaries({"type": _WORDS}, optional={name: _VALUES for name in _NAMES if name != "type"})
    | _VALUES,
    st.sampled_from([0, 0, 0, 0, -1]),
)


@pytest.mark.parametrize("native", ["chat", "messages"])
@settings(max_examples=EXAMPLES)
@given(events=st.lists(_EVENTS, max_size=6))
def test_readers_take_anything(native: Dialect, events: list[WireEvent]) -> None:
    """A reader raises nothing but a model's error or `NotJSON`, and counts no tokens below 0."""
    reading = reader(native)
    for one in events:
        try:
            assert reading.feed(one) >= 0
        except (ModelError, NotJSON):
            return
    assert isinstance(reading.text, str)
    assert reading.finish is None or reading.finish in ("stop", "tool_calls", "length", "content_filter")


@pytest.mark.parametrize(
    ("native", "wanted"),
    [("chat", "chat"), ("messages", "messages"), ("chat", "messages"), ("messages", "chat")],
)
@settings(max_examples=EXAMPLES)
@given(events=st.lists(_EVENTS, max_size=6))
def test_translators_and_assemblers_take_what_a_reader_took(
    native: Dialect, wanted: Dialect, events: list[WireEvent]
) -> None:
    """What a reader has taken can be translated and put together, and comes out as JSON."""
    reading = reader(native)
    translating = translator(native, wanted, model="m", wire=request(wanted, stream=True))
    joining = assembler(wanted)
    made: list[Any] = []
    for one in events:
        try:
            reading.feed(one)
        except (ModelError, NotJSON):
            break
        made.extend(translating.feed(one))
    for one in (*made, *translating.end()):
        joining.feed(one)

    assert isinstance(json.loads(joining.document()), dict)
