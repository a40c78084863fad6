"""Canonical requests as the body of Anthropic's messages."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import Refused
from agents.messages import Message, ModelRequest, Role, ToolCall, ToolSpec
from orchestrator.backends.anthropic.encode import MessageRules, encode_request
from orchestrator.dialects.base import Untranslatable

USER = Message("user", "hi")


def sent(*messages: Message, **fields: Any) -> Any:
    rules = {name: fields.pop(name) for name in ("models", "default_max_tokens") if name in fields}
    return json.loads(encode_request(ModelRequest("m", messages or (USER,), **fields), MessageRules(**rules)))


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_a_full_request() -> None:
    """Each field stands where the dialect has it, and nothing that is unset is sent."""
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body = sent(
        Message("system", "be brief"),
        Message("user", "hé"),
        tools=(ToolSpec("f", "does f", {"properties": {"x": {}}}),),
        max_tokens=5,
        temperature=0.0,
        stop=("END",),
        tool_choice="auto",
        response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}},
        extra={"top_k": 3, "output_config": {"effort": "low"}, "stream": False},
        models={"m": "claude"},
    )
    assert body == {
        "top_k": 3,
        "model": "claude",
        "max_tokens": 5,
        "stream": True,
        "system": "be brief",
        "messages": [{"role": "user", "content": [words("hé")]}],
        "tools": [
            {
                "name": "f",
                "description": "does f",
                "input_schema": {"type": "object", "properties": {"x": {}}},
            }
        ],
        "tool_choice": {"type": "auto"},
        "temperature": 0.0,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
    }


def test_a_plain_request_is_bounded_and_streamed() -> None:
    """The API must be told a bound; the configured one is taken where the request has none."""
    assert sent(default_max_tokens=9) == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": [words("hi")]}],
    }


def test_tool_calls_and_results_are_turns_of_blocks() -> None:
    """Results of one answer's calls are grouped in their order, with what the user says next behind them."""
    calls = (ToolCall("a", "f", '{"x": 1.50}'), ToolCall("b", "f", "{}"))
    body = sent(
        USER,
        Message("assistant", "I look.", calls, reasoning="hidden"),
        Message("tool", "one", tool_call_id="a"),
        Message("tool", "", tool_call_id="b"),
        Message("user", "and?"),
        Message("assistant", "", (ToolCall("c", "f", "{}"),)),
        Message("tool", "three", tool_call_id="c"),
    )
    assert body["messages"] == [
        {"role": "user", "content": [words("hi")]},
        {
            "role": "assistant",
            "content": [
                words("I look."),
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.5}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": ""},
                words("and?"),
            ],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "three"}]},
    ]


def test_R17_arguments_that_are_no_object_go_back_as_they_were_written() -> None:
    """The API takes objects only, so the text is put into one, where the model sees what it wrote."""
    body = sent(USER, Message("assistant", "", (ToolCall("a", "f", '{"x": '), ToolCall("b", "f", "[1]"))))
    inputs = [block["input"] for block in body["messages"][1]["content"]]
    assert inputs == [{"INVALID_JSON": '{"x": '}, {"INVALID_JSON": "[1]"}]


def test_arguments_keep_their_digits() -> None:
    """Arguments go back byte for byte, so that a cached prefix stays one."""
    request = ModelRequest("m", (USER, Message("assistant", "", (ToolCall("a", "f", '{"x":  1.50}'),))))
    assert b'"input":{"x":  1.50}' in encode_request(request, MessageRules())


def test_system_messages_stand_where_they_stood() -> None:
    """Those at the beginning are the system prompt, a later one is a message of its own."""
    body = sent(Message("system", "one"), Message("system", "two"), USER, Message("system", "three"), USER)
    assert body["system"] == "one\n\ntwo"
    assert [message["role"] for message in body["messages"]] == ["user", "system", "user"]


def test_empty_texts_are_left_out() -> None:
    """The API refuses a text without a visible character, which other servers answer with."""
    body = sent(Message("system", " "), USER, Message("assistant", "\n"), Message("user", "again"))
    assert "system" not in body
    assert body["messages"] == [{"role": "user", "content": [words("hi"), words("again")]}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choices(choice: Any, expected: dict[str, Any]) -> None:
    """Each choice of the chat dialect has its counterpart, and Anthropic's own pass."""
    assert sent(tool_choice=choice)["tool_choice"] == expected


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"seed": 7}, "seed"),
        ({"extra": {"n": 2}}, "n"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.type"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    """Nothing is dropped in silence: the error names the field, and is the request's fault."""
    with pytest.raises(Untranslatable) as caught:
        sent(**fields)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")
    assert (caught.value.status, caught.value.endpoint_fault) == (400, False)


def test_a_plain_text_format_says_nothing() -> None:
    """The default by another name is left out."""
    assert "output_config" not in sent(response_format={"type": "text"})


def test_what_json_cannot_hold_is_refused() -> None:
    """A value that no JSON has is the request's fault, and said so."""
    with pytest.raises(Refused, match="cannot be written as JSON"):
        sent(extra={"x": object()})


def test_lone_surrogates_are_replaced_everywhere() -> None:
    """Half a character in a text, a name or an argument never keeps a request from going out."""
    half = "a\ud800b"
    body = sent(
        Message("system", half),
        Message("user", half),
        Message("assistant", "", (ToolCall(half, half, json.dumps({"x": half})),)),
        Message("tool", half, tool_call_id=half),
        tools=(ToolSpec("f", half, {half: half}),),
    )
    assert body["system"] == body["messages"][0]["content"][0]["text"] == "a\ufffdb"


messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.text(max_size=5),
        tool_call_id=st.none() | st.text(max_size=3),
    ),
    max_size=8,
)


@given(messages)
@settings(deadline=None)
def test_any_transcript_becomes_turns_of_alternating_roles(transcript: list[Message]) -> None:
    """Whatever the order of roles, no two messages of one role follow each other, none is empty, no text is lost."""
    body = sent(*transcript, USER)
    roles: list[Role] = [message["role"] for message in body["messages"]]
    assert all(a != b for a, b in itertools.pairwise(roles))
    assert all(message["content"] for message in body["messages"])
    said = [m.content for m in transcript if m.role == "user" and m.content.strip()]
    blocks = [block for message in body["messages"] if message["role"] == "user" for block in message["content"]]
    assert [block["text"] for block in blocks if block["type"] == "text"][:-1] == said
