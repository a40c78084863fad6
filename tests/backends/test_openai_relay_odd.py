"""Odd answers: whatever JSON a server sends in place of an event or a document, it is taken or refused, and no more."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.messages import Dialect, WireEvent
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.backends.openai.calls import CallsPutRight
from orchestrator.backends.openai.documents import events_of_document
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.chat_wire import NotJSON
from orchestrator.dialects.text import scrub

NAMES = st.sampled_from(
    ["choices", "message", "delta", "tool_calls", "index", "id", "usage", "error", "object", "output", "status", "x"]
)
ATOMS = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "error"])
)
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5))
CALLS = st.lists(
    st.fixed_dictionaries({}, optional={"index": JSON | st.integers(0, 3), "id": JSON | st.sampled_from("ab")}),
    max_size=3,
)


class Plain:
    """A translator that changes nothing."""

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        return (event,)

    def end(self) -> Sequence[WireEvent]:
        return ()


@given(st.dictionaries(NAMES, JSON), st.sampled_from(["chat", "responses"]))
def test_any_object_is_an_answer_or_none(value: dict[str, Any], native: Dialect) -> None:
    """Each event is JSON, and nothing but the two refusals is raised."""
    try:
        events = events_of_document(json.dumps(value).encode(), native)
    except NotAnAnswer:
        return
    assert events
    for event in events:
        json.loads(event.data)


@given(st.binary(max_size=40))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    """Half a document, none, or other text: the same two refusals."""
    with pytest.raises((NotJSON, NotAnAnswer)):
        events_of_document(b'{"x": ' + data, "chat")


@pytest.mark.parametrize("text", ["h\\u00fc", "\\ud83d\\ude00", "tab\there", "half \\ud83d"])
def test_a_document_and_its_events_say_the_same(text: str) -> None:
    """Put together again, the events of a document are the document, also where only a lenient reader takes it."""
    data = (
        f'{{"id":"c","object":"chat.completion","model":"m","choices":[{{"index":0,"message":{{"role":"assistant",'
        f'"content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":1,"completion_tokens":2}}}}'
    ).encode()
    whole = assembler("chat")
    for event in events_of_document(data, "chat"):
        whole.feed(event)
    found, sent = json.loads(whole.document()), json.loads(data, strict=False)
    assert found["choices"][0]["message"]["content"] == scrub(sent["choices"][0]["message"]["content"])
    assert (found["id"], found["object"], found["usage"]) == ("c", "chat.completion", sent["usage"])


@given(st.lists(CALLS | JSON, max_size=4))
def test_calls_of_any_shape_pass_or_are_put_right(batches: list[Any]) -> None:
    """No fragment is lost or raises, and whatever is changed has an index afterwards."""
    calls = CallsPutRight(Plain())
    for batch in batches:
        data = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": batch}}]}).encode()
        (event,) = calls.feed(WireEvent("", data))
        found = json.loads(event.data)["choices"][0]["delta"]["tool_calls"]
        if event.data == data:
            continue
        assert len(found) == len(batch)
        assert all(isinstance(call["index"], int) for call in found)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8))
def test_R13_each_new_id_has_an_index_of_its_own(ids: list[str]) -> None:
    """All fragments at index 0: what a program puts together by index is what the ids say."""
    calls, at = CallsPutRight(Plain()), {}
    for call_id in ids:
        piece = {"index": 0, "id": call_id, "function": {"name": "f", "arguments": "{}"}}
        data = json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}).encode()
        (event,) = calls.feed(WireEvent("", data))
        (found,) = json.loads(event.data)["choices"][0]["delta"]["tool_calls"]
        assert at.setdefault(call_id, found["index"]) == found["index"]
    assert sorted(at.values()) == list(range(len(at)))
