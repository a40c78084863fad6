"""Programs of the responses dialect on every kind of backend, through the registries that adapters use."""

import json
from typing import Any

import pytest
from msgspec import Raw
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from agents.messages import WireEvent, WireRequest
from orchestrator.dialects.assemblers import assembler
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.encode import encode_upstream
from orchestrator.dialects.translators import translator

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}


def request(**members: Any) -> WireRequest:
    fields = {"model": "asked", "input": "hello", "max_output_tokens": 64, **members}
    return WireRequest("responses", {name: Raw(json.dumps(value).encode()) for name, value in fields.items()}, 5)


def event(kind: str, **members: Any) -> WireEvent:
    return WireEvent(kind, json.dumps({"type": kind, **members}).encode())


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[WireEvent]:
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def answered(wire: WireRequest, *blocks: list[WireEvent], stop: str) -> list[WireEvent]:
    """What the program gets for an answer of Anthropic's that has these blocks."""
    opening = {"id": "msg_1", "type": "message", "role": "assistant", "model": "served", "content": []}
    usage = {"input_tokens": 9, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0, "output_tokens": 1}
    upstream = [
        event("message_start", message={**opening, "stop_reason": None, "stop_sequence": None, "usage": usage}),
        event("ping"),
        *(said for each in blocks for said in each),
        event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 6}),
        event("message_stop"),
    ]
    translate = translator("messages", "responses", model="asked", wire=wire)
    return [made for said in upstream for made in translate.feed(said)] + list(translate.end())


def document(events: list[WireEvent]) -> Response:
    found = assembler("responses")
    for said in events:
        EVENT.validate_json(said.data)
        found.feed(said)
    return Response.model_validate_json(found.document())


def test_a_request_in_its_own_dialect_is_sent_as_it_is() -> None:
    """A backend that speaks the dialect gets every member byte for byte, but for the model's name and the stream."""
    wire = request(include=["reasoning.encrypted_content"], tools=[{"type": "web_search"}])
    wire = WireRequest("responses", {**wire.fields, "future": Raw(b"1.50")}, 5)
    body = encode_upstream(wire, "responses", model="served", max_tokens=8)
    assert b'"future":1.50' in body
    sent = json.loads(body)
    assert (sent["model"], sent["stream"], sent["max_output_tokens"]) == ("served", True, 8)
    assert sent["tools"] == [{"type": "web_search"}]


def test_a_request_reaches_a_chat_backend() -> None:
    """A backend that speaks chat completions gets messages, a stream with usage, and the bound in its own words."""
    sent = json.loads(encode_upstream(request(tools=[TOOL]), "chat", model="served"))
    assert (sent["model"], sent["stream"], sent["stream_options"]) == ("served", True, {"include_usage": True})
    assert (sent["messages"], sent["max_tokens"]) == ([{"role": "user", "content": "hello"}], 64)
    bounded = json.loads(encode_upstream(request(), "chat", model="served", max_tokens=8))
    assert bounded["max_tokens"] == 8
    assert "max_completion_tokens" not in bounded


def test_a_request_reaches_anthropic() -> None:
    """A backend that speaks messages gets system, turns, tools and the bound in its own words."""
    items = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "it"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    wire = request(input=items, instructions="be brief", tools=[TOOL])
    sent = json.loads(encode_upstream(wire, "messages", model="served"))
    assert (sent["model"], sent["max_tokens"], sent["stream"]) == ("served", 64, True)
    assert "be brief" in json.dumps(sent["system"])
    assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
    use = sent["messages"][1]["content"][-1]
    assert (use["type"], use["id"], use["name"], use["input"]) == ("tool_use", "c1", "look", {"at": "it"})
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "c1"
    assert sent["tools"][0]["name"] == "look"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"seed": 3}, "seed"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].type"),
        (
            {
                "instructions": "i",
                "input": [
                    {"role": "user", "content": "a"},
                    {
                        "role": "user",
                        "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}],
                    },
                ],
            },
            "input[1].content",
        ),
    ],
)
def test_what_anthropic_cannot_do_is_named_in_the_programs_words(members: dict[str, Any], field: str) -> None:
    """A member that only the second translation refuses is named by its path in the program's own body."""
    with pytest.raises(Untranslatable) as caught:
        encode_upstream(request(**members), "messages", model="served")
    assert caught.value.field.startswith(field)
    assert str(caught.value).startswith(caught.value.field)


def test_an_answer_of_anthropics_becomes_a_response() -> None:
    """Text, a tool call and the usage of an Anthropic answer arrive as items of a response, once each."""
    wire = request(tools=[TOOL])
    events = answered(
        wire,
        block(
            0,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Let me "},
            {"type": "text_delta", "text": "look."},
        ),
        block(
            1,
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"at": '},
            {"type": "input_json_delta", "partial_json": '"it"}'},
        ),
        stop="tool_use",
    )
    response = document(events)
    assert (response.status, response.output_text) == ("completed", "Let me look.")
    call = response.output[1]
    assert call.type == "function_call"
    assert (call.call_id, call.name, call.arguments) == ("toolu_1", "look", '{"at": "it"}')
    assert response.usage is not None
    assert response.usage.input_tokens == 12
    assert response.usage.input_tokens_details.cached_tokens == 3
    assert response.usage.output_tokens == 6
    assert [said.event for said in events].count("response.completed") == 1


def test_an_answer_of_anthropics_cut_short_is_incomplete() -> None:
    """A bound that Anthropic reached is told as one that the response reached."""
    events = answered(
        request(), block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "On"}), stop="max_tokens"
    )
    response = document(events)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
