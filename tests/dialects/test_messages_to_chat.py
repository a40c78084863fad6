"""Requests of the messages dialect in chat's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.messages_to_chat import translate
from tests.dialects.dialect_events import fields_of, request

_params: TypeAdapter[Any] = TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)

USER = {"role": "user", "content": "hi"}


def translated(**fields: Any) -> dict[str, Any]:
    made = fields_of(translate(request("messages", **{"model": "m", "max_tokens": 9, "messages": [USER], **fields})))
    _params.validate_python({name: value for name, value in made.items() if name != "stream"})
    return made


def messages(*said: Any, **fields: Any) -> list[Any]:
    return list(translated(messages=list(said), **fields)["messages"])


def test_what_has_the_same_meaning_passes() -> None:
    """Sampling, bounds, stops, the user and the effort keep their values under chat's names."""
    made = translated(
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["X"],
        stream=True,
        metadata={"user_id": "u"},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        thinking={"type": "adaptive", "display": "omitted"},
        top_k=None,
    )

    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert made == {
        "messages": [USER],
        "model": "m",
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stop": ["X"],
        "user": "u",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


@pytest.mark.parametrize(("budget", "effort"), [(1024, "low"), (10_000, "medium"), (32_000, "high")])
def test_a_budget_for_thinking_is_an_effort(budget: int, effort: str) -> None:
    """How many tokens may be thought stands for how hard."""
    assert translated(thinking={"type": "enabled", "budget_tokens": budget})["reasoning_effort"] == effort


def test_system_blocks_and_their_cache_control() -> None:
    """One block is a plain string, several stay several; where a cache may begin is left out."""
    cached = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}

    assert messages(USER, system=[cached])[0] == {"role": "system", "content": "a"}
    assert messages(USER, system=[cached, {"type": "text", "text": "b"}])[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert messages(USER, system="s")[0] == {"role": "system", "content": "s"}
    assert messages(USER, {"role": "system", "content": "later"}, USER)[1] == {"role": "system", "content": "later"}


def test_images_are_urls() -> None:
    """Base64 becomes a data URL, a URL stays one."""
    sources = [
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "url", "url": "https://x/y.png"},
    ]

    (made,) = messages({"role": "user", "content": [{"type": "image", "source": source} for source in sources]})

    assert [part["image_url"]["url"] for part in made["content"]] == [
        "data:image/png;base64,AAAA",
        "https://x/y.png",
    ]


def test_tools_their_calls_and_results() -> None:
    """Calls keep ids and arguments, results come right behind them, an error says so, an image follows for the user."""
    image = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    uses = [{"type": "tool_use", "id": name, "name": "look", "input": {"at": name}} for name in "ab"]
    results = [
        {"type": "text", "text": "And now?"},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "seen"}, image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "gone", "is_error": True},
    ]

    made = messages(
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": "Well."}, *uses]},
        {"role": "user", "content": results},
    )

    assert made[1:] == [
        {
            "role": "assistant",
            "content": "Well.",
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "look", "arguments": f'{{"at":"{name}"}}'}}
                for name in "ab"
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "tool", "tool_call_id": "b", "content": "The tool failed: gone"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And now?"},
                {"type": "text", "text": "The images that tool call a returned:"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            ],
        },
    ]


def test_thinking_goes_back_without_its_signature() -> None:
    """What this server's model thought earlier goes back to it under the name it came by."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}

    made = messages(USER, {"role": "assistant", "content": [thought, {"type": "text", "text": "a"}]}, USER)

    assert made[1] == {"role": "assistant", "content": "a", "reasoning_content": "hm"}


def test_an_empty_turn_is_still_a_turn() -> None:
    """Nothing said is said as nothing, and no message is lost."""
    assert messages({"role": "user", "content": ""}) == [{"role": "user", "content": ""}]
    assert messages(USER, {"role": "assistant", "content": []}, USER)[1] == {"role": "assistant", "content": ""}


TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}


def test_tools_are_functions() -> None:
    """Name, description, schema and strictness stay; how finely their input is streamed has no meaning in chat."""
    tool = {**TOOL, "type": "custom", "strict": True, "eager_input_streaming": True, "cache_control": {}}
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": True}

    assert translated(tools=[tool])["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"tool_choice": "required", "parallel_tool_calls": False}),
        ({"type": "tool", "name": "look"}, {"tool_choice": {"type": "function", "function": {"name": "look"}}}),
    ],
)
def test_choices_of_tools(choice: Any, expected: Any) -> None:
    """Each choice has its word in chat."""
    made = translated(tools=[TOOL], tool_choice=choice)

    assert {name: made.get(name) for name in expected} == expected


def said(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"top_k": 5}, "top_k"),
        ({"mcp_servers": []}, "mcp_servers"),
        ({"metadata": {"user_id": "u", "team": "t"}}, "metadata.team"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "input_examples": [{}]}]}, "tools[0].input_examples"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"thinking": {"type": "between_tools"}}, "thinking.type"),
        ({"output_config": {"task_budget": 1}}, "output_config.task_budget"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        (said({"type": "text", "text": "a"}, {"type": "document", "source": {}}), "messages[0].content[1].type"),
        (said({"type": "image", "source": {"type": "file", "file_id": "f"}}), "messages[0].content[0].source.type"),
        (said({"type": "text"}), "messages[0].content[0].text"),
        (
            said({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "search_result"}]}),
            "messages[0].content[0].content[0].type",
        ),
        ({"messages": [USER, {"role": "assistant", "content": "Once upon"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": {}}, "messages"),
        (
            {"messages": [USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, USER]},
            "messages[1].content[0].type",
        ),
    ],
)
def test_what_chat_has_no_words_for_is_named(fields: Any, path: str) -> None:
    """Everything that cannot be said is refused, with its path in the body."""
    with pytest.raises(Untranslatable) as caught:
        translate(request("messages", **{"model": "m", "max_tokens": 9, "messages": [USER], **fields}))

    assert caught.value.field == path
    assert str(caught.value).startswith(f"{path}: ")


@given(st.text(min_size=1), st.booleans() | st.integers() | st.lists(st.integers()))
def test_every_unknown_member_is_named(name: str, value: object) -> None:
    """No member of a request or of a message gets lost: it becomes something, or is refused by its name."""
    known = set(translated()) | {"system", "tools", "stop_sequences", "top_p", "temperature", "stream", "service_tier"}
    known |= {"tool_choice", "metadata", "thinking", "output_config", "cache_control", "prompt_cache_breakpoint"}
    if name in known | {"role", "content"}:
        return
    for place, fields in (("", {name: value}), ("messages[0].", {"messages": [{**USER, name: value}]})):
        with pytest.raises(Untranslatable) as caught:
            translated(**fields)
        assert caught.value.field == f"{place}{name}"
