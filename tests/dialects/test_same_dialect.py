"""Answers relayed in their own dialect."""

import json

import pytest

from agents.messages import WireEvent
from orchestrator.dialects.translators import translator
from tests.dialects.dialect_events import DONE, bare, chunk, chunks_of, request, translate, usage


def same(events: list[WireEvent], **fields: object) -> list[WireEvent]:
    wire = request("chat", **{"model": "m", "stream": True, **fields})
    return translate(translator("chat", "chat", model="m", wire=wire), events)


ASKED = {"stream_options": {"include_usage": True}}


def test_bytes_pass_untouched() -> None:
    """Chunks with spaces, unknown members and a null usage are relayed as the very objects that came."""
    odd = WireEvent("", b'{ "choices" : [ {"delta":{"content":"\\"usage\\":{}, \\"choices\\":null"}} ], "new":[1] }')
    events = [odd, bare({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": None})]

    made = same(events)

    assert made[0] is odd
    assert made[1] is events[1]
    assert made[2:] == [DONE]


def test_the_end_marker_is_said_once() -> None:
    """Whether or not the server says `[DONE]`, the program gets one."""
    assert same([chunk({"content": "a"}), DONE]).count(DONE) == 1
    assert same([chunk({"content": "a"})]).count(DONE) == 1


@pytest.mark.parametrize("choices", [[], None])
def test_r02_usage_alone_is_dropped_when_not_asked_for(choices: object) -> None:
    """A program that did not ask for usage gets no chunk with it (R02)."""
    made = same([chunk({"content": "a"}, "stop"), bare({"choices": choices, "usage": usage()}), DONE])

    assert len(made) == 2
    assert chunks_of(made)[0].usage is None


@pytest.mark.parametrize("place", ["trailing", "finish", "both", "twice", "null choices"])
def test_r02_exactly_one_usage_chunk_when_asked_for(place: str) -> None:
    """Wherever the server reports usage, a program that asked gets it once, last, without choices (R02)."""
    trailing = bare({"choices": [], "usage": usage()})
    events = {
        "trailing": [chunk({"content": "a"}, "stop"), trailing],
        "finish": [chunk({"content": "a"}, "stop", usage=usage())],
        "both": [chunk({"content": "a"}, "stop", usage=usage(9, 3)), trailing],
        "twice": [chunk({"content": "a"}, "stop"), bare({"choices": [], "usage": usage(1, 1)}), trailing],
        "null choices": [chunk({"content": "a"}, "stop"), bare({"choices": None, "usage": usage()})],
    }[place]

    made = same([*events, DONE], **ASKED)

    chunks = chunks_of(made)
    assert made[-1] == DONE
    assert [one.usage is not None for one in chunks] == [False, True]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 14


def test_r02_usage_on_the_finish_chunk_is_taken_off_when_not_asked_for() -> None:
    """A finish chunk keeps all of its members but the usage that only the gateway asked for (R02)."""
    made = same([chunk({"content": "a"}, "stop", usage=usage(), system_fingerprint="fp"), DONE])

    (one,) = chunks_of(made)
    assert (one.usage, one.system_fingerprint, one.choices[0].finish_reason) == (None, "fp", "stop")


def test_an_answer_in_one_piece_keeps_its_usage() -> None:
    """A program that did not ask for a stream gets the usage in its document, so the events have it."""
    made = same([chunk({"content": "a"}, "stop"), bare({"choices": [], "usage": usage()}), DONE], stream=False)

    assert [one.usage is not None for one in chunks_of(made)] == [False, True]


def test_running_usage_stays_for_who_asked_for_it() -> None:
    """A program that asked for running totals keeps them in every chunk."""
    events = [chunk({"content": "a"}, usage=usage(10, 1)), bare({"choices": [], "usage": usage()}), DONE]

    made = same(events, stream_options={"include_usage": True, "continuous_usage_stats": True})

    assert made == events


def test_r01_null_choices_are_no_choices() -> None:
    """A chunk whose choices are null is relayed with an empty list, which the SDK can walk (R01)."""
    made = same([bare({"choices": None}), chunk({"content": "a"}, "stop"), DONE])

    assert chunks_of(made)[0].choices == []


def test_messages_pass_untouched_and_named() -> None:
    """Messages events pass as they are; one that its server did not name gets the name that the SDK goes by."""
    named = WireEvent("content_block_delta", b'{"type":"content_block_delta" }')
    bare_event = WireEvent("", b'{"type":"message_stop"}')
    wire = request("messages", model="m")

    made = translate(translator("messages", "messages", model="m", wire=wire), [named, bare_event])

    assert made[0] is named
    assert made[1] == WireEvent("message_stop", bare_event.data)


def test_nothing_is_decoded_where_nothing_changes() -> None:
    """A chunk without usage is relayed even if it is no JSON: the relay has not looked into it."""
    torn = WireEvent("", b'{"choices":[{"delta":{"content":"a"}}')

    assert same([torn])[0] is torn
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(torn.data)
