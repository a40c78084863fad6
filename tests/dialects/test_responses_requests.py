"""Requests of the responses dialect as chat completions: what passes, what is translated, and what is named."""

import json
import re
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from agents.errors import Refused
from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.responses_to_chat import chat_request, translate
from orchestrator.dialects.stored import Stored, refuse_stored

CHAT = TypeAdapter(CompletionCreateParamsStreaming)
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True, "description": "Looks."}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}


def request(**members: Any) -> WireRequest:
    fields = {"model": "m", "input": "hello", **members}
    return WireRequest("responses", {name: Raw(json.dumps(value).encode()) for name, value in fields.items()}, 5)


def chat(**members: Any) -> dict[str, Any]:
    """The request in chat completions, valid by the SDK's own types."""
    fields = {name: msgspec.json.decode(raw) for name, raw in translate(request(**members)).fields.items()}
    CHAT.validate_python({**fields, "stream": True})
    return fields


def messages(items: Any, **members: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chat(input=items, **members)["messages"]
    return found


def test_instructions_come_first() -> None:
    """Instructions are the system's message, and a plain input is the user's."""
    assert messages("hi", instructions="be brief") == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]


def test_items_become_messages() -> None:
    """A whole agent's turn keeps its order: text and calls of the model in one message, each output in its own."""
    items = [
        {"role": "developer", "content": "rules"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look twice"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I will.", "annotations": [], "logprobs": []}],
        },
        {**CALL, "id": "fc_1", "status": "completed"},
        {**CALL, "call_id": "c2", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "b"}]},
        {"role": "assistant", "content": "done"},
    ]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}},
    ]
    assert messages(items) == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "look twice"},
        {"role": "assistant", "content": "I will.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {"role": "assistant", "content": "done"},
    ]


def test_R18_a_turn_of_calls_alone_has_no_null_content() -> None:
    """A model's turn without text carries an empty string, which servers that refuse null take."""
    assert messages([{"role": "user", "content": "go"}, CALL])[1]["content"] == ""


def test_parts_keep_what_they_show() -> None:
    """Images, files and sound stay parts of their message, under the names that chat completions give them."""
    parts = [
        {"type": "input_text", "text": "what is it?", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    assert messages([{"role": "user", "content": parts}])[0]["content"] == [
        {"type": "text", "text": "what is it?", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


def test_a_refusal_stays_a_refusal() -> None:
    """What the model once refused goes back as refused, beside what it said."""
    content = [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "No."}]
    assert messages([{"role": "assistant", "content": content}]) == [
        {"role": "assistant", "content": "Well.", "refusal": "No."}
    ]


def test_tools_and_their_choice() -> None:
    """Function tools and every way to choose among them are said at chat's depth."""
    function = {name: TOOL[name] for name in ("name", "description", "parameters", "strict")}
    assert chat(tools=[TOOL], tool_choice="required", parallel_tool_calls=False) == {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "messages": [{"role": "user", "content": "hello"}],
    }
    named = {"type": "function", "function": {"name": "look"}}
    assert chat(tool_choice={"type": "function", "name": "look"})["tool_choice"] == named
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}
    assert chat(tool_choice=allowed)["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [named]},
    }


def test_the_answers_format() -> None:
    """A schema, plain JSON and plain text are asked for in chat's own words."""
    schema = {"name": "n", "schema": {"type": "object"}, "strict": True}
    fields = chat(text={"format": {"type": "json_schema", **schema}, "verbosity": "low"})
    assert fields["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert fields["verbosity"] == "low"
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(text={"format": {"type": "text"}})


def test_members_under_other_names() -> None:
    """Bounds, effort and probabilities are asked for under chat's names."""
    fields = chat(
        max_output_tokens=64,
        reasoning={"effort": "low", "summary": "auto"},
        include=["message.output_text.logprobs", "reasoning.encrypted_content"],
        top_logprobs=3,
    )
    del fields["messages"], fields["model"]
    assert fields == {"max_tokens": 64, "reasoning_effort": "low", "logprobs": True, "top_logprobs": 3}


def test_what_asks_for_nothing_is_left_out() -> None:
    """Nulls, defaults that always hold, labels, and a copy that nobody can fetch, are no part of the request."""
    fields = chat(
        previous_response_id=None,
        background=False,
        store=True,
        truncation="disabled",
        metadata={"label": "x"},
        max_tool_calls=3,
        tools=[],
        include=[],
        temperature=None,
        prompt=None,
    )
    assert fields == {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_shared_and_unknown_members_pass() -> None:
    """What both dialects call the same, and what neither knows, goes on byte for byte."""
    wire = request()
    raw = Raw(b'{ "a" : 1.50 }')
    passed = translate(WireRequest("responses", {**wire.fields, "some_server_option": raw, "top_p": Raw(b"0.10")}, 5))
    assert (bytes(passed.fields["some_server_option"]), bytes(passed.fields["top_p"])) == (bytes(raw), b"0.10")
    assert (passed.dialect, passed.input_bytes) == ("chat", 5)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"input": None}, "input"),
        ({"input": 3}, "input"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "web_search_call", "id": "x", "status": "completed"}]}, "input[0].type"),
        ({"input": [{"role": "critic", "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": "a", "mood": "good"}]}, "input[0].mood"),
        ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0].file_id",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://x"}]}]},
            "input[0].content[0].file_url",
        ),
        ({"input": [{**CALL, "namespace": "n"}]}, "input[0].namespace"),
        ({"input": [{**CALL, "arguments": {}}]}, "input[0].arguments"),
        ({"input": [CALL, {"type": "function_call_output", "output": "x"}]}, "input[1].call_id"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}]},
            "input[0].output[0].type",
        ),
        ({"instructions": ["a"]}, "instructions"),
        ({"tools": [TOOL, {"type": "web_search"}]}, "tools[1].type"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice.type"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
        ({"include": ["file_search_call.results"]}, "include[0]"),
        ({"truncation": "auto"}, "truncation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"messages": []}, "messages"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"n": 2}, "n"),
    ],
)
def test_what_has_no_counterpart_is_named(members: dict[str, Any], field: str) -> None:
    """Whatever chat completions cannot say is refused with status 400 and its path in the program's body."""
    with pytest.raises(Untranslatable) as caught:
        translate(request(**members))
    assert (caught.value.field, caught.value.status) == (field, 400)
    assert str(caught.value).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [("previous_response_id", "resp_1"), ("conversation", {"id": "conv_1"}), ("background", True)],
)
def test_stored_conversations_are_refused(name: str, value: Any) -> None:
    """A request that refers to what would be stored here gets a clear 400, whichever backend would serve it."""
    wire = request(**{name: value})
    for check in (lambda: refuse_stored(wire.fields), lambda: translate(wire)):
        with pytest.raises(Stored) as caught:
            check()
        assert (caught.value.field, caught.value.status) == (name, 400)


def test_nothing_stored_passes() -> None:
    """A request that refers to nothing passes, also where it says so, or asks for a copy."""
    refuse_stored(request(previous_response_id=None, conversation=None, background=False, store=True).fields)


@pytest.mark.parametrize(
    ("chat_field", "field"),
    [
        ("messages[0].content", "instructions"),
        ("messages[1].content[1].image_url", "input[0].content[1].image_url"),
        ("messages[2].tool_calls[0].function.arguments", "input[1].arguments"),
        ("messages[2].tool_calls[1].id", "input[2].call_id"),
        ("messages[3].tool_call_id", "input[3].call_id"),
        ("messages[3].content", "input[3].output"),
        ("messages", "input"),
        ("tools[3].function.strict", "tools[3].strict"),
        ("tool_choice.function.name", "tool_choice.name"),
        ("max_tokens", "max_output_tokens"),
        ("response_format.json_schema.schema", "text.format.schema"),
        ("reasoning_effort", "reasoning.effort"),
        ("logprobs", "include"),
        ("temperature", "temperature"),
    ],
)
def test_errors_about_the_translation_speak_of_the_original(chat_field: str, field: str) -> None:
    """Where a later translation refuses a member, the program is told where that stood in its own body."""
    items = [
        {"role": "user", "content": "a"},
        CALL,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]
    made = chat_request(request(instructions="i", input=items))
    error = made.in_the_programs_words(Untranslatable(chat_field, "why: so"))
    assert (error.field, str(error)) == (field, f"{field}: why: so")


KNOWN = sorted(get_type_hints(ResponseCreateParamsStreaming).keys() - {"input", "model", "stream"})
VALUES = st.sampled_from(["x", 3, True, [], ["x"], {}, {"type": "x"}, {"effort": "low"}, "disabled", "auto", 0.5])


@given(st.dictionaries(st.sampled_from(KNOWN), VALUES, max_size=4))
def test_no_member_is_lost_in_silence(members: dict[str, Any]) -> None:
    """Of every member that the SDK knows: it is in the translated request, or is said to ask nothing, or is named."""
    refused = ""
    try:
        fields = translate(request(**members)).fields
    except Refused as error:
        refused = re.split(r"[:.\[]", str(error))[0]
    if refused:
        assert refused in members
        return
    moved = {
        "instructions": "messages",
        "max_output_tokens": "max_tokens",
        "include": "logprobs",
        "text": "response_format",
        "reasoning": "reasoning_effort",
    }
    asks_nothing = {
        "store",
        "metadata",
        "max_tool_calls",
        *(name for name, value in members.items() if value in ([], {})),
        *(name for name, value in members.items() if (name, value) == ("truncation", "disabled")),
    }
    for name in members:
        assert moved.get(name, name) in fields or name in asks_nothing


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-9, 9),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "name", "output", "call_id", "arguments", "format"]),
            st.one_of(
                inner, st.sampled_from(["message", "function", "function_call", "input_text", "user", "json_schema"])
            ),
            max_size=4,
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*KNOWN, "input"]), JSON, max_size=4), JSON)
def test_no_request_breaks_the_translation(members: dict[str, Any], item: Any) -> None:
    """Whatever stands in a request, it is translated, or refused with a 400."""
    for found in (members, {"input": [item]}, {"input": [{"role": "user", "content": [item]}]}, {"tools": [item]}):
        try:
            wire = translate(request(**found))
        except Refused as error:
            status = error.status
        else:
            status = 400 if wire.dialect == "chat" else 0
        assert status == 400
