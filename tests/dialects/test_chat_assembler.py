"""Chunks put together into chat completions."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages import WireEvent
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.chat_assembler import ChatAssembler
from tests.dialects.dialect_events import DONE, bare, call, chunk, completion, usage


def assembled(*events: WireEvent) -> dict[str, Any]:
    numbers = iter(range(100))
    joining = ChatAssembler(lambda: f"made_{next(numbers)}")
    for one in events:
        joining.feed(one)
    document = joining.document()
    completion(document)
    return dict(json.loads(document))


def test_text_refusal_and_members_of_the_whole() -> None:
    """Text is joined, the last of each other member stands, usage comes from the chunk without choices."""
    document = assembled(
        chunk({"role": "assistant", "content": ""}, service_tier="default"),
        chunk({"content": "Hel"}, system_fingerprint="fp", obfuscation="xx"),
        chunk({"content": "lo", "refusal": "N"}),
        chunk({"refusal": "o"}, "stop"),
        bare({"choices": [], "usage": usage(), "later": {"new": True}}),
        DONE,
    )

    assert document == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "small",
        "service_tier": "default",
        "system_fingerprint": "fp",
        "later": {"new": True},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {"role": "assistant", "content": "Hello", "refusal": "No"},
            }
        ],
        "usage": usage(),
    }


def test_choices_are_put_together_by_index() -> None:
    """Chunks of several choices that alternate make several messages, in order."""
    document = assembled(
        chunk({"content": "b"}, index=1),
        chunk({"content": "a"}),
        chunk({"content": "B"}, "stop", index=1),
        chunk({"content": "A"}, "length"),
    )

    said = [(one["index"], one["message"]["content"], one["finish_reason"]) for one in document["choices"]]
    assert said == [(0, "aA", "length"), (1, "bB", "stop")]


def test_logprobs_are_joined() -> None:
    """The tokens of all chunks stand in one list, with what is in them untouched."""
    tokens = [{"token": text, "logprob": -0.5, "bytes": [97], "top_logprobs": []} for text in "ab"]
    events = [
        bare({"choices": [{"index": 0, "delta": {"content": one["token"]}, "logprobs": {"content": [one]}}]})
        for one in tokens
    ]

    document = assembled(*events, chunk({}, "stop"))

    assert document["choices"][0]["logprobs"] == {"content": tokens}


def test_tool_calls_are_put_together_by_index() -> None:
    """Fragments that alternate make whole calls, without the index that only streams have."""
    document = assembled(
        chunk(call(0, "a", "look", "")),
        chunk(call(1, "b", "find", '{"x"')),
        chunk(call(0, arguments="{}")),
        chunk(call(1, arguments=":1}")),
        chunk({}, "tool_calls"),
    )

    assert document["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "find", "arguments": '{"x":1}'}},
        ],
    }


def test_r13_parallel_calls_that_all_use_index_0() -> None:
    """Three ids at one index are three calls (R13)."""
    document = assembled(
        *[chunk(call(0, name, "look", json.dumps({"of": name}))) for name in "abc"], chunk({}, "tool_calls")
    )

    made = document["choices"][0]["message"]["tool_calls"]
    assert [(one["id"], one["function"]["arguments"]) for one in made] == [
        (name, json.dumps({"of": name})) for name in "abc"
    ]


def test_r15_a_call_without_an_id_gets_one() -> None:
    """A server that names no call gets one name made for each, once (R15)."""
    document = assembled(chunk(call(0, None, "look", "{")), chunk(call(0, None, None, "}"), "stop"))

    (one,) = document["choices"][0]["message"]["tool_calls"]
    assert one == {"id": "made_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(("arguments", "expected"), [("", "{}"), ('{"a":1}""', '{"a":1}""')])
def test_r17_odd_arguments(arguments: str, expected: str) -> None:
    """Empty arguments are an empty object, malformed ones stay as the model wrote them (R17)."""
    document = assembled(chunk(call(0, "a", "look", arguments), "tool_calls"))

    assert document["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == expected


def test_custom_tools_and_unknown_members() -> None:
    """A custom tool's input is joined, and members nobody knows are merged like those that are known."""
    document = assembled(
        chunk({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "SEL"}}]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "ECT"}}]}),
        chunk({"reasoning_content": "h", "notes": [{"index": 0, "text": "a"}, {"text": "x"}], "more": {"n": 1}}),
        chunk({"reasoning_content": "m", "notes": [{"index": 0, "text": "b"}], "more": {"n": 2, "s": "z"}}, "stop"),
    )

    message = document["choices"][0]["message"]
    assert message["tool_calls"] == [{"id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}]
    assert message["reasoning_content"] == "hm"
    assert message["notes"] == [{"index": 0, "text": "ab"}, {"text": "x"}]
    assert message["more"] == {"n": 2, "s": "z"}


def test_half_characters_are_joined() -> None:
    """A pair of surrogates that was cut between two chunks is one character, a lone half becomes U+FFFD."""
    halves = [
        WireEvent("", f'{{"choices":[{{"index":0,"delta":{{"content":"{half}"}}}}]}}'.encode())
        for half in ("\\ud83d", "\\ude00", "\\ud83d")
    ]

    assert assembled(*halves, chunk({}, "stop"))["choices"][0]["message"]["content"] == "\N{GRINNING FACE}\ufffd"


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def two_chunkings(draw: st.DrawFn) -> tuple[list[WireEvent], list[WireEvent]]:
    """One answer, cut in two ways."""
    text = draw(st.text(min_size=1))
    arguments = [json.dumps(draw(st.dictionaries(st.text(max_size=3), st.integers()))) for _ in range(2)]
    chunkings = []
    for _ in range(2):
        deltas: list[Any] = [{"role": "assistant"}, *({"content": piece} for piece in pieces(draw, text))]
        lanes = [
            [call(index, f"id{index}", "look"), *(call(index, arguments=piece) for piece in pieces(draw, whole))]
            for index, whole in enumerate(arguments)
        ]
        while any(lanes):
            lane = draw(st.sampled_from([lane for lane in lanes if lane]))
            deltas.append(lane.pop(0))
        chunkings.append([*(chunk(delta) for delta in deltas), chunk({}, "tool_calls"), DONE])
    return chunkings[0], chunkings[1]


@settings(max_examples=40)
@given(two_chunkings())
def test_any_chunking_is_the_same_document(chunkings: tuple[list[WireEvent], list[WireEvent]]) -> None:
    """However an answer is cut into chunks, and its calls alternate, the document is the same."""
    one, other = (assembled(*events) for events in chunkings)

    calls = [sorted(document["choices"][0]["message"].pop("tool_calls"), key=str) for document in (one, other)]
    assert calls[0] == calls[1]
    assert one == other


def test_an_assembler_is_made_by_dialect() -> None:
    """The registry gives a new assembler for each answer."""
    assert assembler("chat") is not assembler("chat")
