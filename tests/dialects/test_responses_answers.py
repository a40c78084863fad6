"""Answers in the responses dialect: read for accounting, and put together into one document."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ModelError, Overloaded, Refused, Throttled, Unavailable
from agents.messages import FinishReason, Usage, WireEvent
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.chat_wire import NotJSON
from orchestrator.dialects.readers import reader
from orchestrator.dialects.responses_assembler import ResponsesAssembler
from orchestrator.dialects.responses_reader import ResponsesReader


def event(kind: str, **members: Any) -> WireEvent:
    return WireEvent(kind, json.dumps({"type": kind, **members}).encode())


def terminal(kind: str = "completed", **members: Any) -> WireEvent:
    return event(f"response.{kind}", response={"id": "resp_1", "status": kind, "output": [], **members})


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}


def fed(*events: WireEvent) -> ResponsesReader:
    found = ResponsesReader()
    for item in events:
        found.feed(item)
    return found


def test_the_registries_know_the_dialect() -> None:
    """Readers and assemblers of responses are found by the dialect's name."""
    assert isinstance(reader("responses"), ResponsesReader)
    assert isinstance(assembler("responses"), ResponsesAssembler)


def test_text_and_end_are_read() -> None:
    """The text is that of the deltas, and only the last event makes the answer whole."""
    found = fed(
        event("response.created", response={"id": "resp_1", "status": "in_progress"}),
        event("response.output_text.delta", delta="Hel"),
        event("response.output_text.delta", delta="lo"),
    )
    assert (found.text, found.complete, found.finish) == ("Hello", False, None)
    found.feed(terminal(output=[message("Hello")]))
    assert (found.text, found.complete, found.finish) == ("Hello", True, "stop")


def test_R19_everything_that_the_model_produces_counts() -> None:
    """Reasoning, refusals and arguments count as output; announcements and pings do not, and none of them is text."""
    found = ResponsesReader()
    for kind in ("reasoning_text", "reasoning_summary_text", "refusal", "function_call_arguments", "output_text"):
        assert found.feed(event(f"response.{kind}.delta", delta="a")) == 1
    assert found.feed(event("response.output_text.delta", delta="")) == 0
    assert found.feed(event("response.output_text.delta", delta="a" * 40)) == 10
    for kind in ("response.output_item.added", "response.in_progress", "keepalive", "response.output_text.done"):
        assert found.feed(event(kind, text="abc")) == 0
    assert found.text == "a" * 41


@pytest.mark.parametrize(
    ("last", "finish"),
    [
        (terminal(output=[{"type": "function_call", "name": "look"}]), "tool_calls"),
        (terminal(output=[{"type": "custom_tool_call", "name": "look"}]), "tool_calls"),
        (terminal(output=[{"type": "web_search_call"}]), "stop"),
        (terminal("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (terminal("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (terminal("incomplete", incomplete_details=None), "length"),
    ],
)
def test_why_it_ended(last: WireEvent, finish: FinishReason) -> None:
    """The last event says why: calls of the program's own tools, a bound, a filter, or nothing special."""
    assert fed(last).finish == finish


def test_calls_announced_count_where_the_document_has_none() -> None:
    """A server that leaves the output out of its last event has said before that tools are called."""
    added = event("response.output_item.added", item={"type": "function_call", "name": "look"})
    assert fed(added, terminal(output=None)).finish == "tool_calls"


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"input_tokens": 9, "output_tokens": 4}, Usage(9, None, None, 4)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
            },
            Usage(1, 5, 3, 4),
        ),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": None}}, Usage(9, output=4)),
        ({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": None}, Usage(9, output=4)),
        ({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}, Usage(0, 3)),
        ({"input_tokens": -1, "output_tokens": 4}, Usage(output=4)),
        ({"input_tokens": "many"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_R20_usage_is_counted_once(said: Any, usage: Usage | None) -> None:
    """Cached and written tokens are taken out of the input; nulls and nonsense are unknown, and not 0."""
    assert fed(terminal(usage=said, output=[message("x")])).usage == usage


def test_a_document_without_deltas_is_still_text() -> None:
    """A server that sends the last event alone has its text read from there."""
    assert fed(terminal(output=[message("all at once")])).text == "all at once"


def test_the_type_may_stand_in_the_events_name() -> None:
    """Events whose data has no type go by their name."""
    found = fed(WireEvent("response.output_text.delta", b'{"delta": "x"}'), WireEvent("", b"[DONE]"))
    assert found.text == "x"


@pytest.mark.parametrize(
    ("last", "raised", "code"),
    [
        (event("error", code="rate_limit_exceeded", message="slow down", param=None), Throttled, "rate_limit_exceeded"),
        (event("error", error={"type": "server_error", "code": None, "message": "broke"}), Unavailable, "server_error"),
        (event("error", message="broke"), Unavailable, None),
        (WireEvent("", b'{"error": {"code": "queue_full", "message": "full"}}'), Overloaded, "queue_full"),
        (terminal("failed", error={"code": "server_error", "message": "broke"}), Unavailable, "server_error"),
        (terminal("failed", error={"code": "context_length_exceeded", "message": "x"}), Refused, None),
        (terminal("completed", status="cancelled", error=None), Unavailable, None),
    ],
)
def test_R04_an_error_inside_an_answer_is_an_error(last: WireEvent, raised: type[ModelError], code: str | None) -> None:
    """Every way of saying that an answer failed raises by blame, with the text that had come."""
    found = fed(event("response.output_text.delta", delta="Hel"))
    with pytest.raises(raised) as caught:
        found.feed(last)
    assert caught.value.partial == "Hel"
    assert code is None or caught.value.code == code
    assert not found.complete


def test_what_is_no_json_is_said_to_be_none() -> None:
    """Data that is no JSON raises the same error as in the other dialects."""
    with pytest.raises(NotJSON):
        fed(WireEvent("", b"{half"))


def test_a_loose_event_is_read_as_far_as_it_makes_sense() -> None:
    """An event with a member of an odd type costs that member, and not the answer."""
    found = fed(
        event("response.output_text.delta", delta="x", output_index="zero"),
        terminal(usage={"input_tokens": 3, "output_tokens": 1}, output="none", incomplete_details=7),
    )
    assert (found.text, found.finish, found.usage) == ("x", "stop", Usage(3, output=1))


def put_together(*events: WireEvent) -> bytes:
    found = ResponsesAssembler()
    for item in events:
        found.feed(item)
    return found.document()


def test_the_document_is_the_last_response_byte_for_byte() -> None:
    """Members that nobody here knows, odd spacing and number formats reach the program as the server wrote them."""
    response = b'{"id":"resp_1", "output": [ ],"future": {"x": 1.50}}'
    data = b'{"type":"response.completed","sequence_number":9,"response":' + response + b"}"
    created = event("response.created", response={"id": "resp_1", "output": []})
    assert put_together(created, WireEvent("response.completed", data), created) == response


def test_items_fill_in_for_an_output_left_out() -> None:
    """A last event without output gets the items that were said to be done, in their places."""
    second = event("response.output_item.done", output_index=1, item=message("b"))
    first = event("response.output_item.done", output_index=0, item=message("a"))
    found = json.loads(put_together(second, first, terminal(output=None, future=1)))
    assert found["output"] == [message("a"), message("b")]
    assert (found["status"], found["future"]) == ("completed", 1)


def test_an_answer_without_its_last_event_is_incomplete() -> None:
    """What was described and done so far is the document of an answer that never ended."""
    created = event("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})
    done = event("response.output_item.done", output_index=0, item=message("a"))
    assert json.loads(put_together(created, done)) == {"id": "resp_1", "status": "incomplete", "output": [message("a")]}


def test_nothing_said_is_an_empty_object() -> None:
    """No event that describes a response leaves an empty object."""
    assert put_together(WireEvent("", b"[DONE]")) == b"{}"


VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)
KINDS = st.sampled_from(
    ["response.completed", "response.failed", "response.output_text.delta", "response.output_item.done", "error", ""]
)
MEMBERS = st.dictionaries(
    st.sampled_from(["delta", "item", "output_index", "response", "error", "output", "usage", "status", "content"]),
    VALUE,
    max_size=4,
)


@given(st.lists(st.tuples(KINDS, MEMBERS, st.booleans()), max_size=4))
def test_no_event_breaks_the_reader_or_the_document(loose: list[tuple[str, dict[str, Any], bool]]) -> None:
    """Whatever types a server puts into its events, they are read or are an error of the answer; a document is JSON."""
    found, joined = ResponsesReader(), ResponsesAssembler()
    for kind, members, inside in loose:
        said = event(kind, **({"response": members} if inside else members))
        joined.feed(said)
        try:
            tokens = found.feed(said)
        except ModelError:
            tokens = 0
        assert tokens >= 0
    assert isinstance(json.loads(joined.document()), dict)
