"""Assistant turns without text, on their way to servers that refuse null."""

import json
from typing import Any

import msgspec
import pytest

from agents.messages import WireRequest
from orchestrator.backends.openai.null import without_null_content


def request(messages: Any) -> WireRequest:
    text = json.dumps({"model": "m", "messages": messages})
    return WireRequest("chat", msgspec.json.decode(text, type=dict[str, msgspec.Raw]), len(text))


def messages_of(wire: WireRequest) -> Any:
    return json.loads(bytes(wire.fields["messages"]))


def test_R18_null_becomes_an_empty_text_and_all_else_stays() -> None:
    """Only an assistant's null content changes; its tool calls, members that nobody knows and other turns stay."""
    calls = [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"content": null}'}}]
    turns = [
        {"role": "user", "content": "hi", "odd": {"content": None}},
        {"role": "assistant", "content": None, "tool_calls": calls, "odd": 1.50},
        {"role": "tool", "content": None},
    ]
    changed = messages_of(without_null_content(request(turns)))
    assert changed == [turns[0], {**turns[1], "content": ""}, turns[2]]


@pytest.mark.parametrize("messages", [[{"role": "assistant", "content": "a"}], "nonsense", [], [1]])
def test_a_request_without_such_a_turn_is_the_very_same(messages: Any) -> None:
    """Nothing is decoded or made anew where no null stands."""
    wire = request(messages)
    assert without_null_content(wire) is wire


def test_what_is_no_list_of_objects_is_left_to_the_server() -> None:
    """Messages that are no list of objects go on as they are."""
    wire = request({"content": None})
    assert without_null_content(wire) is wire
