"""Chat completions as events of the responses dialect, judged by the SDK's own types and its own accumulator."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from agents.messages import WireEvent, WireRequest
from orchestrator.dialects.chat_to_responses import ChatToResponses
from orchestrator.dialects.responses_assembler import ResponsesAssembler
from orchestrator.dialects.responses_reader import ResponsesReader

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
DONE = WireEvent("", b"[DONE]")


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any) -> WireEvent:
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    body = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1_800_000_000, "model": "served"}
    return WireEvent("", json.dumps({**body, "choices": choices, **members}).encode())


def call(index: int, call_id: str | None = None, name: str | None = None, arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments} if name is not None else {"arguments": arguments}
    return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}


def translated(chunks: Iterable[WireEvent], **members: Any) -> list[WireEvent]:
    fields = {name: Raw(json.dumps(value).encode()) for name, value in {"input": "hi", **members}.items()}
    translator = ChatToResponses("asked", WireRequest("responses", fields, 2), new_id=lambda: "new", now=lambda: 5.0)
    events = [event for given_event in chunks for event in translator.feed(given_event)]
    return [*events, *translator.end()]


def read(events: Sequence[WireEvent]) -> list[Any]:
    """The events by the SDK's types, strictly; their names, numbers and order are right."""
    found = [EVENT.validate_json(event.data) for event in events]
    assert [event.type for event in found] == [event.event for event in events]
    assert [event.sequence_number for event in found] == list(range(len(found)))
    assert [event.type for event in found[:2]] == ["response.created", "response.in_progress"]
    return found


def document(events: Sequence[WireEvent]) -> Response:
    assembler = ResponsesAssembler()
    for event in events:
        assembler.feed(event)
    return Response.model_validate_json(assembler.document())


def accumulated(events: Sequence[WireEvent], **arguments: Any) -> Any:
    """What the unmodified SDK makes of the events."""
    body = b"".join(b"event: %s\ndata: %s\n\n" % (event.event.encode(), event.data) for event in events)
    answer = httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: answer))
    client = openai.OpenAI(api_key="k", base_url="http://gateway/v1", max_retries=0, http_client=http)
    with client.responses.stream(model="asked", input="hi", **arguments) as stream:
        return stream.get_final_response()


def test_text_is_one_message() -> None:
    """Text comes as one message with one part, in the provider's order, and the usage comes last."""
    chunks = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        chunk(usage=USAGE),
        DONE,
    ]
    events = translated(chunks)
    assert [event.type.removeprefix("response.") for event in read(events)] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    response = accumulated(events)
    assert (response.id, response.model, response.created_at) == ("resp_7", "served", 1_800_000_000)
    assert (response.output_text, response.status) == ("Hello", "completed")
    assert response.usage.model_dump(exclude_none=True) == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 13,
    }


def test_calls_follow_the_text() -> None:
    """Parallel calls whose fragments alternate stay apart, each under its own id, and close before the end."""
    chunks = [
        chunk({"content": "Wait."}),
        chunk(call(0, "c1", "look", "")),
        chunk(call(1, "c2", "hear", '{"a"')),
        chunk(call(0, arguments='{"b": 1}')),
        chunk(call(1, arguments=": 2}")),
        chunk(finish="tool_calls"),
        DONE,
    ]
    events = translated(chunks)
    read(events)
    response = accumulated(events)
    assert [item.type for item in response.output] == ["message", "function_call", "function_call"]
    assert [(item.call_id, item.name, item.arguments) for item in response.output[1:]] == [
        ("c1", "look", '{"b": 1}'),
        ("c2", "hear", '{"a": 2}'),
    ]
    assert len({item.id for item in response.output}) == 3


def test_R13_new_ids_at_index_0_are_new_calls() -> None:
    """Three calls that a server all numbers 0 arrive as three items."""
    events = translated([chunk(call(0, f"c{n}", "look", "{}")) for n in range(3)] + [chunk(finish="tool_calls"), DONE])
    read(events)
    assert [item.call_id for item in document(events).output if item.type == "function_call"] == ["c0", "c1", "c2"]


def test_R15_a_call_without_id_gets_one() -> None:
    """A call that the server gives no id has one and the same made-up id in every event and in the document."""
    chunks = [chunk(call(0, None, "look", "{")), chunk(call(0, arguments="}")), chunk(finish="tool_calls"), DONE]
    events = translated(chunks)
    ids = {event.item.call_id for event in read(events) if hasattr(event, "item")}
    assert ids == {"call_new"}


def test_R17_no_arguments_are_an_empty_object() -> None:
    """A call with empty arguments has `{}` in its deltas, its end and the document; malformed ones stay as they are."""
    for arguments, expected in (("", "{}"), ('{}""', '{}""')):
        events = translated([chunk(call(0, "c1", "look", arguments)), chunk(finish="tool_calls"), DONE])
        said = [event.delta for event in read(events) if event.type == "response.function_call_arguments.delta"]
        assert "".join(said) == expected
        (item,) = document(events).output
        assert item.type == "function_call"
        assert item.arguments == expected


def test_a_name_that_comes_late_is_waited_for() -> None:
    """A call is announced only when its name is known, with whatever arguments came before."""
    chunks = [chunk(call(0, "c1", None, '{"a"')), chunk(call(0, None, "look", ": 1}")), chunk(finish="stop"), DONE]
    events = read(translated(chunks))
    added = next(event for event in events if event.type == "response.output_item.added")
    assert added.item.name == "look"
    assert events[-1].response.output[0].arguments == '{"a": 1}'


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_R19_reasoning_is_an_item_of_its_own(name: str) -> None:
    """Reasoning under either name comes before the message, as an item that closes when the text begins."""
    chunks = [chunk({name: "Let "}), chunk({name: "me see"}), chunk({"content": "4"}), chunk(finish="stop"), DONE]
    events = translated(chunks)
    types = [event.type.removeprefix("response.") for event in read(events)]
    assert types[2:9] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    reasoning, message = document(events).output
    assert reasoning.type == "reasoning"
    assert [part.text for part in reasoning.content or []] == ["Let me see"]
    assert message.type == "message"


def test_a_refusal_is_a_part_of_the_message() -> None:
    """A refusal comes as a refusal, and is no text."""
    events = translated([chunk({"refusal": "I wo"}), chunk({"refusal": "n't"}), chunk(finish="stop"), DONE])
    read(events)
    response = document(events)
    assert response.output_text == ""
    (message,) = response.output
    assert message.type == "message"
    assert [part.refusal for part in message.content if part.type == "refusal"] == ["I won't"]


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter"), (None, None)]
)
def test_an_answer_cut_short_is_incomplete(finish: str | None, reason: str | None) -> None:
    """An answer that ended early says so in its last event, with the reason, and in what was being said."""
    events = translated([chunk({"content": "Once"}), *([chunk(finish=finish)] if finish else [])])
    last = read(events)[-1]
    assert last.type == "response.incomplete"
    response = document(events)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == reason
    assert [item.status for item in response.output if item.type == "message"] == ["incomplete"]


def test_probabilities_reach_deltas_and_document() -> None:
    """Where they were asked for, probabilities stand at each delta and with their bytes in the whole text."""
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [{"token": "a", "logprob": -0.5}]}
    body = json.loads(chunk({"content": "a"}).data)
    body["choices"][0]["logprobs"] = {"content": [token]}
    chunks = [WireEvent("", json.dumps(body).encode()), chunk(finish="stop"), DONE]
    events = translated(chunks, include=["message.output_text.logprobs"])
    delta = next(event for event in read(events) if event.type == "response.output_text.delta")
    assert [(item.token, item.logprob) for item in delta.logprobs] == [("a", -0.5)]
    (message,) = document(events).output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert [(item.bytes, len(item.top_logprobs)) for item in part.logprobs or []] == [([97], 1)]


def test_the_document_repeats_the_request() -> None:
    """What the program asked for stands in the response as it said it, and nothing is said to be stored."""
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
    events = translated(
        [chunk({"content": "x"}), chunk(finish="stop"), DONE],
        instructions="be brief",
        temperature=0.25,
        tools=[tool],
        tool_choice="required",
        metadata={"a": "b"},
        store=True,
    )
    response = document(events)
    assert (response.instructions, response.temperature, response.tool_choice) == ("be brief", 0.25, "required")
    assert [item.type for item in response.tools] == ["function"]
    assert response.metadata == {"a": "b"}
    assert response.model_dump()["store"] is False
    assert response.error is None


def test_structured_output_is_parsed() -> None:
    """The SDK's own parsing works on a translated answer."""

    class Answer(BaseModel):
        value: int

    events = translated([chunk({"content": '{"value"'}), chunk({"content": ": 3}"}), chunk(finish="stop"), DONE])
    assert accumulated(events, text_format=Answer).output_parsed == Answer(value=3)


@pytest.mark.parametrize("odd", [{"choices": None, "usage": USAGE}, {"usage": USAGE}])
def test_R01_a_chunk_without_choices_brings_its_usage(odd: dict[str, Any]) -> None:
    """Null choices and none at all are the same: nothing is said, and the usage counts."""
    events = translated([chunk({"content": "x"}), chunk(finish="stop"), chunk(**odd), DONE])
    last = read(events)[-1]
    assert last.response.usage.total_tokens == 13


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None},
        {"prompt_tokens": 9.0, "completion_tokens": "4"},
    ],
)
def test_R20_loose_usage_is_still_counted(usage: dict[str, Any]) -> None:
    """Nulls and odd types in the usage cost its details at most."""
    last = read(translated([chunk({"content": "x"}), chunk(finish="stop", usage=usage), DONE]))[-1]
    assert (last.response.usage.input_tokens, last.response.usage.output_tokens) == (9, 4)


def test_unknown_usage_is_no_usage() -> None:
    """An answer whose server reports nothing has no usage, which is not 0."""
    for usage in (None, {}, {"prompt_tokens": 3}):
        last = read(translated([chunk({"content": "x"}), chunk(finish="stop", usage=usage), DONE]))[-1]
        assert last.response.usage is None


def test_an_answer_that_names_nothing_gets_names() -> None:
    """Chunks without id, time and model lead to an id, the time of day and the model that was asked for."""
    bare = WireEvent("", b'{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}')
    response = document(translated([bare]))
    assert (response.id, response.model, response.created_at) == ("resp_new", "asked", 5.0)


def test_half_characters_are_joined() -> None:
    """An astral character that a server cuts in two escapes arrives whole, and a lone half as the replacement."""
    chunks = [chunk({"content": text}) for text in ("\ud83d", "\ude00 ", "\ud83d")]
    assert document(translated([*chunks, chunk(finish="stop"), DONE])).output_text == "\U0001f600 \ufffd"


def test_nothing_is_said_after_the_end() -> None:
    """The end is said once, whether the end marker or the stream's end comes first."""
    fields = WireRequest("responses", {}, 0)
    translator = ChatToResponses("m", fields)
    assert translator.feed(chunk({"content": "x"}, "stop"))
    assert translator.feed(DONE)
    assert not translator.feed(chunk({"content": "y"}))
    assert not translator.end()


TEXT = st.text(alphabet=st.sampled_from("ab \u20ac\U0001f600"), min_size=1, max_size=4)
SPOKEN = st.lists(
    st.one_of(
        st.builds(lambda text: {"content": text}, TEXT),
        st.builds(lambda text: {"reasoning": text}, TEXT),
        st.builds(lambda text: {"refusal": text}, TEXT),
        st.builds(lambda text, n: call(n, f"c{n}", "look", text), TEXT, st.integers(0, 2)),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(SPOKEN, st.sampled_from(["stop", "tool_calls"]))
def test_every_answer_is_read_the_same_in_three_ways(deltas: list[dict[str, Any]], finish: str) -> None:
    """The SDK's accumulator, the document and the reader agree with what the model said, for any order of speaking."""
    chunks = [*map(chunk, deltas), chunk(finish=finish), chunk(usage=USAGE), DONE]
    events = translated(chunks)
    read(events)
    said = "".join(delta.get("content", "") for delta in deltas)
    calls: dict[str, str] = {}
    for delta in deltas:
        for item in delta.get("tool_calls", ()):
            calls[item["id"]] = calls.get(item["id"], "") + item["function"]["arguments"]
    response = document(events)
    assert response.output_text == said
    found = {item.call_id: item.arguments for item in response.output if item.type == "function_call"}
    assert found == {call_id: arguments if arguments.strip() else "{}" for call_id, arguments in calls.items()}
    reader = ResponsesReader()
    for event in events:
        reader.feed(event)
    assert (reader.text, reader.complete, reader.finish) == (said, True, "tool_calls" if calls else "stop")
    snapshot = accumulated(events)
    assert [item.id for item in snapshot.output] == [item.id for item in response.output]
    assert snapshot.output_text == said


@given(st.text(max_size=30), st.data())
def test_cutting_the_text_elsewhere_changes_nothing(text: str, data: st.DataObject) -> None:
    """However a server cuts its text into chunks, the document is the same."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = translated([chunk({"content": text}), chunk(finish="stop"), DONE])
    parts = translated([*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"), DONE])
    assert document(parts) == document(whole)


VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)),
    max_leaves=4,
)
NAMES = ("content", "reasoning", "refusal", "tool_calls", "index", "id", "function", "name", "arguments")


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=3), VALUE, VALUE), max_size=4))
def test_no_chunk_breaks_the_events(loose: list[tuple[dict[str, Any], Any, Any]]) -> None:
    """Whatever types a server puts into its chunks, what comes out is valid and ends once."""
    chunks = []
    for delta, calls, odd in loose:
        body = {
            "choices": [{"delta": {**delta, "tool_calls": [delta, calls]}, "logprobs": odd}],
            "usage": odd,
            "id": calls,
        }
        chunks.append(WireEvent("", json.dumps(body).encode()))
    events = translated([*chunks, chunk(finish="stop"), DONE], include=["message.output_text.logprobs"])
    assert [event.type for event in read(events)].count("response.completed") == 1
    document(events)
