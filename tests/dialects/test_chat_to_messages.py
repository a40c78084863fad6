"""Requests of chat completions in Anthropic's words."""

from typing import Any

import pytest
from anthropic.types import message_create_params
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.chat_to_messages import DEFAULT_MAX_TOKENS, translate
from tests.dialects.dialect_events import fields_of, request

_params: TypeAdapter[Any] = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)

USER = {"role": "user", "content": "hi"}


def translated(**fields: Any) -> dict[str, Any]:
    made = fields_of(translate(request("chat", **{"model": "m", "messages": [USER], **fields})))
    _params.validate_python({name: value for name, value in made.items() if name != "stream"})
    return made


def test_what_has_the_same_meaning_passes() -> None:
    """Sampling, bounds, stops, the user and Anthropic's own words keep their values."""
    made = translated(
        max_completion_tokens=9,
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        stop="X",
        stream=True,
        stream_options={"include_usage": True},
        safety_identifier="u",
        top_k=4,
        thinking={"type": "enabled", "budget_tokens": 1024},
        prompt_cache_key="k",
        service_tier="flex",
        n=1,
        logprobs=False,
        frequency_penalty=0,
        modalities=["text"],
        reasoning_effort="high",
    )

    assert made == {
        "messages": [USER],
        "max_tokens": 9,
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "stop_sequences": ["X"],
        "metadata": {"user_id": "u"},
        "top_k": 4,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "high"},
    }


def test_a_bound_on_the_output_has_to_be_there() -> None:
    """A request without one gets the default, since the dialect takes none without."""
    assert translated()["max_tokens"] == DEFAULT_MAX_TOKENS
    assert translated(max_tokens=3)["max_tokens"] == 3


def test_system_messages() -> None:
    """System and developer messages in front are the system prompt; a later one stays in its place."""
    made = translated(
        messages=[
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [{"type": "text", "text": "b"}]},
            USER,
            {"role": "system", "content": "c"},
            USER,
        ]
    )

    assert made["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [turn["role"] for turn in made["messages"]] == ["user", "system", "user"]
    assert translated(messages=[{"role": "system", "content": "a"}, USER])["system"] == "a"


def test_tool_messages_are_one_turn_of_results() -> None:
    """Results of parallel calls, and what the user says then, are one user turn with the results first."""
    calls = [
        {"id": name, "type": "function", "function": {"name": "look", "arguments": arguments}}
        for name, arguments in (("a", '{"at": 1.50}'), ("b", ""), ("c", "{broken"))
    ]
    made = translated(
        messages=[
            USER,
            {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "hm", "refusal": None},
            *({"role": "tool", "tool_call_id": name, "content": name.upper()} for name in "abc"),
            {"role": "user", "content": "And now?"},
        ]
    )

    uses = [("a", {"at": 1.5}), ("b", {}), ("c", {"INVALID_JSON": "{broken"})]
    assert made["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": name, "name": "look", "input": value} for name, value in uses],
        },
        {
            "role": "user",
            "content": [
                *({"type": "tool_result", "tool_use_id": name, "content": name.upper()} for name in "abc"),
                {"type": "text", "text": "And now?"},
            ],
        },
    ]


def test_images_and_files() -> None:
    """Data URLs become base64 sources, other URLs stay, a PDF becomes a document."""
    parts = [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a.pdf"}},
    ]

    made = translated(messages=[{"role": "user", "content": parts}])

    pdf = {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}
    assert made["messages"][0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "document", "source": pdf, "title": "a.pdf"},
    ]


TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "function": {"name": "look"}}}, {"type": "tool", "name": "look"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": True}, None),
        (
            {"tool_choice": "required", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_tools_and_their_choice(fields: Any, choice: Any) -> None:
    """Functions become tools, and each choice has its word, with one call at a time if that was asked for."""
    strict = {"type": "function", "function": {"name": "bare", "strict": True}}

    made = translated(tools=[TOOL, strict], **fields)

    assert made["tools"] == [
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}},
        {"name": "bare", "input_schema": {"type": "object", "properties": {}}, "strict": True},
    ]
    assert made.get("tool_choice") == choice


def test_a_schema_for_the_answer() -> None:
    """A JSON schema becomes the dialect's own output format, with its description."""
    form = {"name": "n", "schema": {"type": "object"}, "description": "A thing.", "strict": True}

    made = translated(response_format={"type": "json_schema", "json_schema": form}, reasoning_effort="low")

    schema = {"description": "A thing.", "type": "object"}
    assert made["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    assert "output_config" not in translated(response_format={"type": "text"})
    assert translated(reasoning_effort="none")["thinking"] == {"type": "disabled"}


def said(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"seed": 7}, "seed"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"temperature": 1.5}, "temperature"),
        ({"store": True}, "store"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"reasoning_effort": "minimal"}, "reasoning_effort"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"tools": [{"type": "custom", "custom": {"name": "sql"}}]}, "tools[0].type"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice.type"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"messages": [{**USER, "name": "Ann"}]}, "messages[0].name"),
        ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, "messages[0].role"),
        (said({"type": "input_audio", "input_audio": {}}), "messages[0].content[0].type"),
        (said({"type": "image_url", "image_url": {"url": "ftp://x"}}), "messages[0].content[0].image_url.url"),
        (said({"type": "file", "file": {"file_id": "f"}}), "messages[0].content[0].file.file_data"),
        (
            {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}]},
            "messages[1].tool_calls[0].type",
        ),
        ({"messages": [USER, {"role": "assistant", "content": "a", "audio": {"id": "x"}}]}, "messages[1].audio"),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    ],
)
def test_what_the_dialect_has_no_words_for_is_named(fields: Any, path: str) -> None:
    """Everything that would change the answer and cannot be said is refused, with its path in the body."""
    with pytest.raises(Untranslatable) as caught:
        translated(**fields)

    assert caught.value.field == path
    assert (caught.value.status, str(caught.value).startswith(f"{path}: ")) == (400, True)


_KNOWN = set(
    """model messages max_tokens max_completion_tokens tools tool_choice parallel_tool_calls stop temperature top_p
    stream stream_options user safety_identifier response_format reasoning_effort thinking top_k prompt_cache_key
    prompt_cache_options prompt_cache_retention prompt_cache_breakpoint cache_control prediction metadata service_tier
    n store logprobs top_logprobs frequency_penalty presence_penalty role content""".split()  # noqa: SIM905
)


@given(st.text(min_size=1), st.booleans() | st.integers() | st.lists(st.integers()))
def test_every_unknown_member_is_named(name: str, value: object) -> None:
    """No member of a request or of a message gets lost: it becomes something, or is refused by its name."""
    if name in _KNOWN:
        return
    for place, fields in (("", {name: value}), ("messages[0].", {"messages": [{**USER, name: value}]})):
        with pytest.raises(Untranslatable) as caught:
            translated(**fields)
        assert caught.value.field == f"{place}{name}"
