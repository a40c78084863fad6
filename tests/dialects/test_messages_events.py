"""Messages answers as chunks of chat completions, and both ways after one another."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.messages import WireEvent
from orchestrator.dialects.chat_assembler import ChatAssembler
from orchestrator.dialects.chat_events import ChatToMessages
from orchestrator.dialects.messages_events import MessagesToChat
from tests.dialects.dialect_events import (
    DONE,
    block,
    call,
    chunk,
    chunks_of,
    completion,
    ending,
    event,
    message_of,
    request,
    start,
    translate,
)

ASKED = {"stream_options": {"include_usage": True}}


def translated(*events: WireEvent, **fields: Any) -> list[WireEvent]:
    wire = request("chat", **{"model": "m", "stream": True, **fields})
    return translate(MessagesToChat("asked-for", wire, lambda: 5.5), events)


def text(*pieces: str, index: int = 0) -> list[WireEvent]:
    return block(index, "text", [{"type": "text_delta", "text": piece} for piece in pieces], text="")


def use(index: int, call_id: str, *pieces: str) -> list[WireEvent]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, "tool_use", deltas, id=call_id, name="look", input={})


def test_the_order_of_chunks() -> None:
    """The role first, then the text, the finish reason, and the end marker; every chunk has the same head."""
    made = translated(start(), event("ping"), *text("Hel", "lo"), *ending())

    chunks = chunks_of(made)
    said = [(one.choices[0].delta.to_dict(), one.choices[0].finish_reason) for one in chunks]
    assert said == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo"}, None),
        ({}, "stop"),
    ]
    assert {(one.id, one.created, one.model) for one in chunks} == {("chatcmpl-1", 5, "claude")}
    assert made[-1] == DONE
    assert made.count(DONE) == 1


def test_r02_exactly_one_usage_chunk_when_asked_for() -> None:
    """A program that asked gets one last chunk without choices, with cached input counted in (R02)."""
    used = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 1}

    chunks = chunks_of(translated(start(usage=used), *text("a"), *ending(), **ASKED))

    assert [one.usage is not None for one in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    assert chunks[-1].to_dict()["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    }


def test_r02_no_usage_chunk_when_not_asked_for() -> None:
    """A program that did not ask finds no usage anywhere (R02)."""
    made = translated(start(), *text("a"), *ending())

    assert all(b'"usage"' not in one.data for one in made)


def test_an_answer_in_one_piece_has_its_usage() -> None:
    """Put together for a program that wants no stream, the document has the usage."""
    assert chunks_of(translated(start(), *text("a"), *ending(), stream=False))[-1].usage is not None


def test_calls_have_an_index_of_their_own() -> None:
    """Calls are counted by themselves, not by block, and one without input gets an empty object."""
    made = translated(start(), *text("Well."), *use(1, "t1", "", '{"a"', ":1}"), *use(2, "t2", ""), *ending("tool_use"))

    fragments = [fragment.to_dict() for one in chunks_of(made) for fragment in one.choices[0].delta.tool_calls or ()]
    assert fragments == [
        {"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
        {"index": 1, "id": "t2", "type": "function", "function": {"name": "look", "arguments": ""}},
        {"index": 1, "function": {"arguments": "{}"}},
    ]
    assert chunks_of(made)[-1].choices[0].finish_reason == "tool_calls"


def test_input_that_a_block_begins_with() -> None:
    """A server that gives a call's input whole at its start has it passed on."""
    opening = event(
        "content_block_start", index=0, content_block={"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}}
    )

    made = translated(start(), opening, event("content_block_stop", index=0), *ending("tool_use"))

    assert chunks_of(made)[2].to_dict()["choices"][0]["delta"]["tool_calls"][0]["function"] == {"arguments": '{"a": 1}'}


def test_thinking_is_reasoning() -> None:
    """Thinking comes as `reasoning_content`; its signature has no place and no chunk."""
    thought = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s"}]
    made = translated(
        start(), *block(0, "thinking", thought, thinking="", signature=""), *text("a", index=1), *ending()
    )

    deltas = [one.choices[0].delta.to_dict() for one in chunks_of(made)]
    assert deltas[1:3] == [{"reasoning_content": "hm"}, {"content": "a"}]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("later_reason", "stop"),
    ],
)
def test_finish_reasons(reason: str, finish: str) -> None:
    """Each stop reason has its finish reason, one that is not known too."""
    assert chunks_of(translated(start(), *text("a"), *ending(reason)))[-1].choices[0].finish_reason == finish


def test_the_end_is_said_once() -> None:
    """A stream whose `message_stop` got lost ends like any other."""
    whole = translated(start(), *text("a"), *ending(), **ASKED)
    cut = translated(start(), *text("a"), *ending()[:1], **ASKED)

    assert whole == cut


def test_blocks_that_chat_has_no_place_for() -> None:
    """Redacted thinking, citations and blocks of a later version make no chunk, and break nothing."""
    citation = [{"type": "citations_delta", "citation": {"type": "later"}}]
    odd = [*block(0, "redacted_thinking", data="x"), *block(1, "text", citation, text=""), *block(2, "hologram")]

    assert len(translated(start(), *odd, *ending())) == 3


def pieces(draw: st.DrawFn, whole: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]


_ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[str], list[WireEvent]]:
    """A text, the arguments of calls, and chunks that say both, cut anyhow."""
    said = draw(st.text())
    arguments = [json.dumps(one) for one in draw(st.lists(_ARGUMENTS, max_size=3))]
    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": one}) for one in pieces(draw, said))]
    lanes = [
        [
            chunk(call(index, f"c{index}", "look", "")),
            *(chunk(call(index, arguments=one)) for one in pieces(draw, whole)),
        ]
        for index, whole in enumerate(arguments)
    ]
    heads = [lane.pop(0) for lane in lanes]
    events.extend(heads)
    while any(lanes):
        events.append(draw(st.sampled_from([lane for lane in lanes if lane])).pop(0))
    return said, arguments, [*events, chunk({}, "tool_calls" if arguments else "stop"), DONE]


@given(answers())
def test_there_and_back_again(answer: tuple[str, list[str], list[WireEvent]]) -> None:
    """Chat to messages to chat keeps the text, every call with its id, name and arguments, and their order."""
    said, arguments, events = answer

    there = translate(ChatToMessages("m", request("messages")), events)
    message = message_of(there)
    back = ChatAssembler()
    for one in translate(MessagesToChat("m", request("chat", model="m")), there):
        back.feed(one)

    choice = completion(back.document()).choices[0]
    calls = [(one.id, one.function.name, one.function.arguments) for one in choice.message.tool_calls or ()]
    assert (choice.message.content or "") == said
    assert calls == [(f"c{index}", "look", whole) for index, whole in enumerate(arguments)]
    assert choice.finish_reason == ("tool_calls" if arguments else "stop")
    blocks = [one.input for one in message.content if one.type == "tool_use"]
    assert blocks == [json.loads(whole) for whole in arguments]
