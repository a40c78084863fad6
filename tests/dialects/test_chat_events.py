"""Chat answers as events of the messages dialect, which the SDK has to be able to put together."""

import json
from typing import Any

import pytest
from anthropic.types import Message

from agents.messages import WireEvent
from orchestrator.dialects.chat_events import ChatToMessages
from orchestrator.dialects.messages_assembler import MessagesAssembler
from tests.dialects.dialect_events import DONE, bare, call, chunk, message_of, request, translate, usage


def translated(*events: WireEvent) -> list[WireEvent]:
    numbers = iter(range(100))
    wire = request("messages", model="m")
    return translate(ChatToMessages("asked-for", wire, lambda: f"made_{next(numbers)}"), events)


def content(*events: WireEvent) -> list[dict[str, Any]]:
    return [block.to_dict() for block in message_of(translated(*events)).content]


def kinds(events: list[WireEvent]) -> list[str]:
    return [one.event for one in events]


def test_the_order_of_events() -> None:
    """Start, ping, block, message_delta with the usage that came last, stop: each once, in the provider's order."""
    events = translated(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}, "stop"),
        bare({"choices": [], "usage": usage(10, 4, cached_tokens=6, cache_write_tokens=1)}),
        DONE,
    )

    assert kinds(events) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    message = message_of(events)
    assert (message.id, message.model, message.stop_reason) == ("msg_1", "small", "end_turn")
    used = message.usage
    assert (used.input_tokens, used.cache_read_input_tokens, used.cache_creation_input_tokens) == (3, 6, 1)
    assert used.output_tokens == 4


def test_the_end_is_said_once() -> None:
    """What comes after the end marker, and a second end, say nothing more."""
    events = translated(chunk({"content": "a"}, "stop"), DONE, DONE, chunk({"content": "late"}))

    assert kinds(events).count("message_stop") == 1
    assert kinds(events)[-1] == "message_stop"


@pytest.mark.parametrize(
    ("finish", "delta", "reason"),
    [
        ("stop", {"content": "a"}, "end_turn"),
        ("length", {"content": "a"}, "max_tokens"),
        ("tool_calls", call(0, "a", "look", "{}"), "tool_use"),
        ("stop", call(0, "a", "look", "{}"), "tool_use"),
        ("content_filter", {"content": "a"}, "refusal"),
        ("stop", {"refusal": "No."}, "refusal"),
        ("eos", {"content": "a"}, "end_turn"),
    ],
)
def test_stop_reasons(finish: str, delta: Any, reason: str) -> None:
    """Each finish reason has its stop reason, and a call is one whatever the server says."""
    assert message_of(translated(chunk(delta, finish))).stop_reason == reason


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_r19_reasoning_is_a_block_of_thinking(field: str) -> None:
    """Reasoning under both names becomes thinking before the text, in a block of its own (R19)."""
    made = content(chunk({field: "h"}), chunk({field: "m"}), chunk({"content": "a"}, "stop"))

    assert made == [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "a"}]


def uses(*events: WireEvent) -> list[tuple[str, str, Any]]:
    return [(block["id"], block["name"], block["input"]) for block in content(*events) if block["type"] == "tool_use"]


def test_calls_that_alternate_are_blocks_one_after_the_other() -> None:
    """Fragments of two calls that alternate become two whole blocks, with never more than one open."""
    events = [
        chunk({"content": "Well."}),
        chunk(call(0, "a", "look", '{"x":')),
        chunk(call(1, "b", "find", '{"y":')),
        chunk(call(0, arguments="1}")),
        chunk(call(1, arguments="2}"), "tool_calls"),
    ]

    assert uses(*events) == [("a", "look", {"x": 1}), ("b", "find", {"y": 2})]
    open_blocks: list[int] = []
    for one in translated(*events):
        said = json.loads(one.data)
        if one.event == "content_block_start":
            assert not open_blocks
            open_blocks.append(said["index"])
        elif one.event == "content_block_delta":
            assert open_blocks == [said["index"]]
        elif one.event == "content_block_stop":
            open_blocks.remove(said["index"])


def test_a_call_is_passed_on_piece_by_piece() -> None:
    """A call's arguments are not held back until they are whole."""
    translator = ChatToMessages("m", request("messages"))
    translator.feed(chunk(call(0, "a", "look", "")))

    made = translator.feed(chunk(call(0, arguments='{"x')))

    assert [json.loads(one.data)["delta"]["partial_json"] for one in made] == ['{"x']


def test_r13_parallel_calls_that_all_use_index_0() -> None:
    """Three ids at one index are three blocks (R13)."""
    calls = [chunk(call(0, name, "look", json.dumps({"of": name}))) for name in "abc"]

    assert uses(*calls, chunk({}, "tool_calls")) == [(name, "look", {"of": name}) for name in "abc"]


def test_r15_a_call_without_an_id_gets_one() -> None:
    """A call that its server names nowhere gets one id, in the dialect's form (R15)."""
    made = uses(chunk(call(0, None, "look", "{")), chunk(call(0, None, None, "}"), "tool_calls"))

    assert made == [("toolu_made_0", "look", {})]


def test_r17_empty_and_malformed_arguments() -> None:
    """No arguments are an empty object; malformed ones are relayed word for word (R17)."""
    assert uses(chunk(call(0, "a", "look", "")), chunk(call(1, "b", "look", ""), "tool_calls")) == [
        ("a", "look", {}),
        ("b", "look", {}),
    ]
    events = translated(chunk(call(0, "a", "look", '{"a":1}""')), chunk({}, "tool_calls"))
    deltas = [json.loads(one.data)["delta"] for one in events if one.event == "content_block_delta"]
    assert deltas == [{"type": "input_json_delta", "partial_json": '{"a":1}""'}]


def test_r01_null_choices_with_usage() -> None:
    """A chunk with null choices and usage adds the usage and nothing else (R01)."""
    message = message_of(translated(chunk({"content": "a"}, "stop"), bare({"choices": None, "usage": usage(8, 2)})))

    assert (message.usage.input_tokens, message.usage.output_tokens, len(message.content)) == (8, 2, 1)


def test_r02_usage_is_said_once() -> None:
    """Usage on the finish chunk and on a trailing one is said once, as the last was (R02)."""
    events = translated(
        chunk({"content": "a"}, "stop", usage=usage(9, 3)), bare({"choices": [], "usage": usage()}), DONE
    )

    said = [json.loads(one.data)["usage"] for one in events if one.event == "message_delta"]
    assert said == [{"input_tokens": 10, "output_tokens": 4}]


def test_half_characters_are_joined() -> None:
    """A pair of surrogates cut between two chunks is one character."""
    halves = [
        WireEvent("", f'{{"choices":[{{"index":0,"delta":{{"content":"{half}"}}}}]}}'.encode())
        for half in ("\\ud83d", "\\ude00")
    ]

    assert content(*halves, chunk({}, "stop")) == [{"type": "text", "text": "\N{GRINNING FACE}"}]


def test_an_answer_of_nothing_is_still_a_message() -> None:
    """A stream with neither text nor calls gives a message without content, which the SDK takes."""
    events = translated(chunk({}, "stop"))

    assert message_of(events).content == []
    joining = MessagesAssembler()
    for one in events:
        joining.feed(one)
    assert Message.model_validate_json(joining.document()).stop_reason == "end_turn"


def test_an_answer_that_names_no_model_has_the_programs() -> None:
    """Where no chunk names a model or an id, the program reads the model it asked for and an id made here."""
    message = message_of(translated(WireEvent("", b'{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}')))

    assert (message.model, message.id) == ("asked-for", "msg_made_0")
