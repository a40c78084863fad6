"""Events put together into messages, with the SDK's own accumulation as the judge."""

import json
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st

from agents.messages import WireEvent
from orchestrator.dialects.messages_assembler import MessagesAssembler
from tests.dialects.dialect_events import block, ending, event, message_of, start


def assembled(*events: WireEvent) -> dict[str, Any]:
    joining = MessagesAssembler()
    for one in events:
        joining.feed(one)
    return dict(json.loads(joining.document()))


CITATION = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
    "file_id": None,
}


def test_every_kind_of_block_is_what_the_sdk_makes_of_it() -> None:
    """Thinking with its signature, text with citations and tool input come out as the SDK accumulates them."""
    events = [
        start(),
        event("ping"),
        *block(
            0,
            "thinking",
            [
                {"type": "thinking_delta", "thinking": "hm"},
                {"type": "thinking_delta", "thinking": "m"},
                {"type": "signature_delta", "signature": "sig=="},
            ],
            thinking="",
            signature="",
        ),
        *block(
            1,
            "text",
            [
                {"type": "text_delta", "text": "Hel"},
                {"type": "citations_delta", "citation": CITATION},
                {"type": "text_delta", "text": "lo"},
            ],
            text="",
        ),
        *block(
            2,
            "tool_use",
            [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"a":', ' [1, "x"]}')],
            id="t1",
            name="look",
            input={},
        ),
        *block(3, "tool_use", [{"type": "input_json_delta", "partial_json": ""}], id="t2", name="stop", input={}),
        *ending("tool_use", input_tokens=12, cache_read_input_tokens=3),
    ]

    document = assembled(*events)

    assert Message.model_validate(document) == message_of(events)
    assert document["usage"] == {"input_tokens": 12, "output_tokens": 4, "cache_read_input_tokens": 3}
    assert document["content"][2]["input"] == {"a": [1, "x"]}
    assert document["content"][3]["input"] == {}


def test_what_is_not_known_is_kept() -> None:
    """Blocks, deltas and members of a later version come through whole."""
    search = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x", "url": "u", "n": 1}]}
    events = [
        start(container={"id": "c"}, later="start"),
        event("content_block_start", index=0, content_block=search),
        event("content_block_stop", index=0),
        *block(1, "hologram", [{"type": "hologram_delta", "light": "a"}, {"type": "hologram_delta", "light": "b"}]),
        event("message_delta", delta={"stop_reason": "end_turn", "later": "end"}, usage={}, later_too={"n": 1}),
        event("message_stop"),
    ]

    document = assembled(*events)

    assert document["content"] == [search, {"type": "hologram", "light": "ab"}]
    assert (document["later"], document["later_too"]) == ("end", {"n": 1})
    assert (document["container"], document["stop_reason"]) == ({"id": "c"}, "end_turn")
    assert document["usage"] == {"input_tokens": 10, "output_tokens": 1}


def test_r17_malformed_input_is_wrapped() -> None:
    """Input that is no JSON object is relayed word for word in the object that the API's guide names (R17)."""
    pieces = [{"type": "input_json_delta", "partial_json": '{"a":1}""'}]

    document = assembled(start(), *block(0, "tool_use", pieces, id="t", name="look", input={}), *ending("tool_use"))

    assert document["content"][0]["input"] == {"INVALID_JSON": '{"a":1}""'}


def test_numbers_of_a_tool_keep_their_digits() -> None:
    """A tool's input is passed on as the model wrote it, however long its numbers are."""
    text = '{"n":0.10000000000000000000001,"big":123456789012345678901234567890}'
    joining = MessagesAssembler()
    pieces = [{"type": "input_json_delta", "partial_json": text}]
    for one in (start(), *block(0, "tool_use", pieces, id="t", name="look", input={}), *ending("tool_use")):
        joining.feed(one)

    assert text.encode() in joining.document()


@given(st.text(min_size=1), st.dictionaries(st.text(max_size=3), st.integers()), st.data())
def test_any_cutting_is_the_same_message(text: str, arguments: dict[str, int], data: st.DataObject) -> None:
    """However blocks are cut into deltas, the message is the same, and the SDK's."""

    def cut(whole: str) -> list[str]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
        return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    def answer() -> list[WireEvent]:
        says = [{"type": "text_delta", "text": piece} for piece in cut(text)]
        calls = [{"type": "input_json_delta", "partial_json": piece} for piece in cut(json.dumps(arguments))]
        blocks = [*block(0, "text", says, text=""), *block(1, "tool_use", calls, id="t", name="look", input={})]
        return [start(), *blocks, *ending("tool_use")]

    one, other = answer(), answer()

    assert assembled(*one) == assembled(*other)
    assert Message.model_validate(assembled(*one)) == message_of(one)


@pytest.mark.parametrize("events", [[], [event("ping")]])
def test_an_answer_without_events_is_still_a_document(events: list[WireEvent]) -> None:
    """Whatever came, the document is JSON."""
    assert assembled(*events) == {"content": [], "usage": {}}
