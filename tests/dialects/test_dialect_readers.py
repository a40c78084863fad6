"""Reading answers on their way."""

import json

import pytest

from agents.errors import Overloaded, Refused, Throttled, Unavailable
from agents.messages import Dialect, Usage, WireEvent
from orchestrator.dialects.readers import READERS, reader
from tests.dialects.dialect_events import DONE, bare, block, call, chunk, ending, event, start, usage


@pytest.mark.parametrize("choices", [[], None])
def test_r01_usage_beside_no_choices_is_read(choices: object) -> None:
    """Null and empty choices alike bring usage and nothing else (R01)."""
    reading = reader("chat")

    counts = [
        reading.feed(one)
        for one in (
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Hello"}, "stop"),
            bare({"choices": choices, "usage": usage(10, 4, cached_tokens=6)}),
            DONE,
        )
    ]

    assert counts == [0, 1, 0, 0]
    assert (reading.text, reading.finish, reading.complete) == ("Hello", "stop", True)
    assert reading.usage == Usage(input=4, cached=6, output=4)


def test_r02_usage_is_never_counted_twice() -> None:
    """Usage on the finish chunk and again on the trailing one is one usage (R02)."""
    reading = reader("chat")
    for one in (chunk({"content": "a"}, "stop", usage=usage()), bare({"choices": [], "usage": usage()})):
        reading.feed(one)

    assert reading.usage == Usage(input=10, output=4)


def test_cache_writes_are_no_plain_input() -> None:
    """Tokens written to a cache are counted apart, since they have a price of their own."""
    reading = reader("chat")
    reading.feed(bare({"choices": [], "usage": usage(10, 4, cached_tokens=3, cache_write_tokens=5)}))

    assert reading.usage == Usage(input=2, cached=3, cache_write=5, output=4)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "queue full", "code": "queue_full"}, Overloaded),
        ({"message": "slow down", "code": 429}, Throttled),
        ({"message": "no", "type": "invalid_request_error"}, Refused),
        ("it broke", Unavailable),
    ],
)
def test_r04_an_error_inside_a_chat_stream_fails_it(error: object, expected: type[Exception]) -> None:
    """A top-level error in a 200 stream is raised by blame, with the text so far, and ends nothing as `stop` (R04)."""
    reading = reader("chat")
    reading.feed(chunk({"content": "half"}))

    with pytest.raises(expected) as caught:
        reading.feed(WireEvent("", json.dumps({"error": error}).encode()))

    assert getattr(caught.value, "partial", None) == "half"
    assert (reading.finish, reading.complete) == (None, False)


def test_r05_an_end_without_a_finish_reason_is_not_complete() -> None:
    """Two chunks and then nothing leave the answer open, with the text and tokens that came (R05)."""
    reading = reader("chat")

    tokens = sum(reading.feed(chunk({"content": "12345678"})) for _ in range(2))

    assert (reading.complete, reading.finish, reading.text, tokens) == (False, None, "1234567812345678", 4)


def test_every_choice_must_end() -> None:
    """With two choices the answer is whole when both are, and the text is that of the first."""
    reading = reader("chat")
    reading.feed(chunk({"content": "a"}, "stop"))
    reading.feed(chunk({"content": "b"}, index=1))
    assert not reading.complete

    reading.feed(chunk({}, "length", index=1))

    assert (reading.complete, reading.finish, reading.text) == (True, "stop", "a")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_r19_reasoning_counts_as_output(field: str) -> None:
    """Chunks that carry only reasoning are progress, under both names (R19)."""
    assert reader("chat").feed(chunk({field: "considering"})) > 0


@pytest.mark.parametrize("broken", [None, {"cached_tokens": None}])
def test_r20_null_details_are_unknown(broken: object) -> None:
    """Null details of the input leave the totals standing (R20)."""
    reading = reader("chat")
    reading.feed(bare({"choices": [], "usage": {**usage(), "prompt_tokens_details": broken}}))
    reading.feed(bare({"choices": [], "usage": None}))

    assert reading.usage == Usage(input=10, output=4)


@pytest.mark.parametrize("said", ["stop", "tool_calls"])
def test_tool_calls_are_the_reason_where_there_are_any(said: str) -> None:
    """Servers that end a call with `stop` mean `tool_calls`."""
    reading = reader("chat")
    reading.feed(chunk(call(0, "c", "look", "{}"), said))

    assert reading.finish == "tool_calls"


def test_an_answer_cut_off_by_the_server_is_not_complete() -> None:
    """A finish reason by which servers say that they broke off completes nothing."""
    reading = reader("chat")
    reading.feed(chunk({"content": "a"}, "abort"))

    assert not reading.complete


def test_messages_are_read_from_start_to_stop() -> None:
    """Usage is joined from opening and end, and thinking and tool input count as output."""
    reading = reader("messages")
    opening = start(usage={"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1})
    assert reading.feed(opening) == 0
    assert reading.usage == Usage(input=5, cached=7)

    for index, (kind, key, delta) in enumerate([("thinking", "thinking", "hmm"), ("text", "text", "Hello")]):
        assert sum(map(reading.feed, block(index, kind, [{"type": f"{kind}_delta", key: delta}], **{key: ""}))) == 1
    pieces = [{"type": "input_json_delta", "partial_json": '{"a":1}'}]
    assert sum(map(reading.feed, block(2, "tool_use", pieces, id="t", name="look", input={}))) == 2
    assert (reading.feed(event("ping")), reading.complete) == (0, False)
    for one in ending("tool_use"):
        reading.feed(one)

    assert (reading.text, reading.finish, reading.complete) == ("Hello", "tool_calls", True)
    assert reading.usage == Usage(input=5, cached=7, output=4)


def test_r04_an_overloaded_event_inside_a_messages_stream_fails_it() -> None:
    """`overloaded_error` inside a 200 is an overload, with what had come before it (R04)."""
    reading = reader("messages")
    for one in (start(), *block(0, "text", [{"type": "text_delta", "text": "half"}], text="")):
        reading.feed(one)

    with pytest.raises(Overloaded) as caught:
        reading.feed(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))

    assert (caught.value.partial, caught.value.usage) == ("half", Usage(input=10))
    assert not reading.complete


def test_r05_messages_without_a_stop_reason_are_not_complete() -> None:
    """A stream that ends after its blocks, without a stop reason, has not ended whole (R05)."""
    reading = reader("messages")
    for one in (start(), *block(0, "text", [{"type": "text_delta", "text": "half"}], text="")):
        reading.feed(one)

    assert (reading.complete, reading.finish) == (False, None)


@pytest.mark.parametrize("dialect", sorted(READERS))
def test_an_adapter_names_its_own_errors(dialect: Dialect) -> None:
    """The error is made by whoever knows the endpoint and its secrets."""
    reading = reader(dialect, lambda value, usage, partial: Unavailable(f"our own: {value}"))

    with pytest.raises(Unavailable, match="our own"):
        reading.feed(event("error", error={"type": "api_error", "message": "no"}))
