"""Tool calls, reasoning, usage and stray fields as real servers send them, against the adapter over a real socket."""

import json

import pytest

from agents.messages import ToolCall, Usage
from tests.backends.payloads import (
    CALLS,
    DONE,
    END,
    STOP,
    USAGE,
    chunk,
    event,
    frame,
    stream,
    stream_head,
    text,
    tool,
    trailing,
    whole,
)
from tests.backends.upstream import ask, in_two_reads

# tools


async def test_R13_a_new_id_at_an_occupied_index_opens_a_new_call() -> None:
    """Three calls that all claim index 0 stay three calls, each at a place of its own."""
    fragments = [tool(0, id=f"c{n}", type="function", name="f", arguments=f'{{"n": {n}}}') for n in range(3)]
    reply, recorder = await ask(stream(*fragments, CALLS, DONE))
    assert reply.message.tool_calls == tuple(ToolCall(f"c{n}", "f", f'{{"n": {n}}}') for n in range(3))
    assert reply.finish_reason == "tool_calls"
    deltas = [call for _, batch in recorder.batches for delta in batch for call in delta.tool_calls]
    assert [(d.index, d.id, d.name) for d in deltas] == [(0, "c0", "f"), (1, "c1", "f"), (2, "c2", "f")]


@pytest.mark.parametrize("missing", [{}, {"id": None}, {"id": ""}])
async def test_R15_a_missing_id_is_synthesised_once_and_the_same_shape_unstreamed(missing: dict[str, object]) -> None:
    """Streamed without ids, each call gets one stable id; the whole document gives a reply of the same shape."""
    streamed = stream(
        tool(0, name="f", arguments="", **missing),
        tool(0, arguments='{"a":', **missing),
        tool(0, arguments="1}", **missing),
        tool(1, name="g", arguments="{}", **missing),
        CALLS,
        DONE,
    )
    reply, recorder = await ask(streamed)
    first, second = reply.message.tool_calls
    assert (first.name, first.arguments, second.name, second.arguments) == ("f", '{"a":1}', "g", "{}")
    assert first.id
    assert second.id
    assert first.id != second.id
    deltas = [call for _, batch in recorder.batches for delta in batch for call in delta.tool_calls]
    assert [(d.index, d.id) for d in deltas] == [(0, first.id), (0, ""), (0, ""), (1, second.id)]

    message = {
        "content": None,
        "tool_calls": [
            {"function": {"name": "f", "arguments": '{"a":1}'}},
            {"function": {"name": "g", "arguments": "{}"}},
        ],
    }
    document = {"model": "m-1", "choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE}
    unstreamed, _ = await ask(whole(200, json.dumps(document).encode()))
    assert [(c.name, c.arguments) for c in unstreamed.message.tool_calls] == [("f", '{"a":1}'), ("g", "{}")]
    assert len({c.id for c in unstreamed.message.tool_calls} - {""}) == 2
    assert unstreamed.finish_reason == reply.finish_reason


@pytest.mark.parametrize(
    ("arguments", "kept", "malformed"),
    [
        ("", "{}", False),
        ("  ", "{}", False),
        ('{"a":1}""', '{"a":1}""', True),
        ("[1]", "[1]", True),
        ("null", "null", True),
        ('{"a":', '{"a":', True),
        ('{"a":"\\ud800"}', '{"a":"\\ud800"}', False),
        ('{"a":NaN,"b":"\\ud800"}', '{"a":NaN,"b":"\\ud800"}', True),
        ("[" * 5000, "[" * 5000, True),
    ],
)
async def test_R17_arguments_empty_or_malformed(arguments: str, kept: str, malformed: bool) -> None:
    """Empty means the empty object; anything else is kept as it came, and named if it is no JSON object."""
    reply, _ = await ask(stream(tool(0, id="c", name="f", arguments=arguments), CALLS, DONE))
    assert reply.message.tool_calls == (ToolCall("c", "f", kept),)
    assert reply.malformed == (("c",) if malformed else ())


async def test_arguments_sent_as_an_object_become_its_text() -> None:
    """A server that forgets to quote the arguments is understood."""
    reply, _ = await ask(stream(tool(0, id="c", name="f", arguments={"a": [1]}), STOP, DONE))
    assert json.loads(reply.message.tool_calls[0].arguments) == {"a": [1]}
    assert reply.finish_reason == "tool_calls"


# fields


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_R19_reasoning_passes_under_both_names(field: str) -> None:
    """Reasoning alone is progress (deltas, not mere liveness), and the reply keeps it apart from the text."""
    thinking = [event(chunk(None, **{field: part})) for part in ("hm, ", "so")]
    reply, recorder = await ask(
        in_two_reads(
            stream_head() + frame(thinking[0]), frame(thinking[1]) + frame(text("42")) + frame(STOP) + frame(DONE) + END
        )
    )
    assert (reply.message.reasoning, reply.message.content) == ("hm, so", "42")
    assert recorder.order[3:] == ["deltas", "deltas"]
    assert recorder.batches[0][1][0].reasoning == "hm, "


async def test_R19_both_names_with_the_same_text_count_once() -> None:
    """Servers in transition send both."""
    reply, _ = await ask(stream(event(chunk("a", reasoning="hm", reasoning_content="hm")), STOP, DONE))
    assert reply.message.reasoning == "hm"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": None}},
            Usage(10, None, None, 4),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": None}, Usage(10, None, None, 4)),
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(0, 10, None, 4),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": "?"}, Usage(10, None, None, 4)),
        ({"prompt_tokens": 10, "completion_tokens": None}, Usage(10)),
        ({"prompt_tokens": "10", "completion_tokens": 4.0}, Usage(10, None, None, 4)),
        ({"prompt_tokens": -1, "completion_tokens": 4}, Usage(output=4)),
        (None, Usage()),
        ({}, Usage()),
        ([], Usage()),
    ],
)
async def test_R20_partial_usage_is_read_as_far_as_it_goes(usage: object, expected: Usage) -> None:
    """Null or odd details are unknown, never a crash and never 0; the totals still count."""
    reply, _ = await ask(stream(text("a"), STOP, trailing(usage), DONE))
    assert (reply.message.content, reply.usage) == ("a", expected)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [{"index": None, "delta": {"content": "x"}, "logprobs": 7, "finish_reason": None}]},
        {"choices": [{"delta": {"content": "x", "tool_calls": None, "role": 5}}], "model": 3, "id": [], "created": "?"},
        {"choices": [{"delta": {"content": "x", "tool_calls": [None, {}, {"function": None}]}}], "usage": "none"},
        {"choices": [{"delta": {"content": [{"type": "text", "text": "x"}]}}], "error": None},
        {"choices": [None, {"delta": {"content": "x"}}, 5], "error": {}},
        {"choices": [{"delta": {"content": "x"}, "finish_reason": ""}], "error": False},
        {"choices": [{"delta": {"content": "x"}}, {"index": 1, "delta": {"content": "other"}}]},
    ],
)
async def test_a_stray_null_or_odd_type_elsewhere_loses_no_text(odd: object) -> None:
    """Whatever stands in fields that don't matter, the text of choice 0 arrives."""
    reply, _ = await ask(stream(event(odd), STOP, DONE))
    assert reply.message.content == "x"
    assert reply.message.tool_calls == ()


async def test_a_refusal_is_text_and_its_own_finish_reason() -> None:
    """A structured refusal neither vanishes nor passes for an answer."""
    reply, _ = await ask(stream(event(chunk(None, refusal="I cannot")), STOP, DONE))
    assert (reply.message.content, reply.finish_reason) == ("I cannot", "content_filter")
