"""The pure parts under random input: chunks into replies, tool-call fragments into calls, text out of halves."""

import contextlib
import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages import Delta, ModelReply, ToolCall
from orchestrator.backends.openai.stream import ReplyAssembler, new_call_id
from orchestrator.dialects.chat_tools import ToolCallAssembler
from orchestrator.dialects.chat_wire import FunctionWire, NotJSON, ToolCallWire, decode_chunk
from orchestrator.dialects.text import TextJoiner, scrub
from tests.backends.recorder import put_together


def assemble(payloads: list[object]) -> tuple[ModelReply, list[Delta]]:
    numbers = count()
    assembler = ReplyAssembler(lambda: f"new{next(numbers)}")
    deltas = []
    for payload in payloads:
        chunk = decode_chunk(json.dumps(payload).encode())
        if chunk is not None:
            deltas.append(assembler.add(chunk))
    deltas.append(assembler.finish())
    return assembler.reply(), [delta for delta in deltas if delta is not None]


def replay(deltas: list[Delta]) -> tuple[str, str, tuple[ToolCall, ...]]:
    """What a reader of the deltas puts together: text, reasoning, and the tool calls."""
    text = "".join(delta.text for delta in deltas)
    return text, "".join(delta.reasoning for delta in deltas), put_together(deltas)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[a:b] for a, b in zip(edges, [*edges[1:], len(text)], strict=True)]


_text = st.text(max_size=30)
_cuts = st.lists(st.integers(0, 40), max_size=5)
_arguments = st.dictionaries(st.text(max_size=3), st.integers(), max_size=3).map(json.dumps)


@settings(deadline=None)
@given(_text, _text, st.lists(st.tuples(st.booleans(), _arguments), max_size=3), _cuts, st.booleans())
def test_any_cutting_of_an_answer_gives_the_same_reply_and_deltas_that_add_up(
    text: str, reasoning: str, calls: list[tuple[bool, str]], cuts: list[int], one_index: bool
) -> None:
    """Where a server cuts text and arguments never matters, and what the deltas say is what the reply says."""
    chunks: list[dict[str, Any]] = [{"content": part} for part in pieces(text, cuts)]
    chunks += [{"reasoning_content": part} for part in pieces(reasoning, cuts)]
    for number, (named, arguments) in enumerate(calls):
        # Without ids, calls can only be told apart by their index.
        index = 0 if one_index and all(n for n, _ in calls) else number
        start = {"index": index, "function": {"name": f"f{number}", "arguments": ""}}
        chunks.append({"tool_calls": [start | ({"id": f"id{number}"} if named else {})]})
        chunks += [{"tool_calls": [{"index": index, "function": {"arguments": p}}]} for p in pieces(arguments, cuts)]
    payloads: list[object] = [{"choices": [{"delta": delta}]} for delta in chunks]
    reply, deltas = assemble([*payloads, {"choices": [{"delta": {}, "finish_reason": "stop"}]}])
    assert (reply.message.content, reply.message.reasoning) == (text, reasoning)
    assert [(c.name, c.arguments) for c in reply.message.tool_calls] == [
        (f"f{number}", arguments) for number, (_, arguments) in enumerate(calls)
    ]
    seen_text, seen_reasoning, seen_calls = replay(deltas)
    assert (seen_text, seen_reasoning) == (text, reasoning)
    assert seen_calls == reply.message.tool_calls
    assert reply.malformed == ()


_keys = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "id",
        "index",
        "usage",
        "prompt_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "finish_reason",
        "error",
        "model",
    ]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(_keys, _json, max_size=4), max_size=5))
def test_odd_json_never_raises_and_always_gives_writable_text(payloads: list[object]) -> None:
    """Whatever types stand in whatever fields, a reply comes out whose every string can be written as UTF-8."""
    reply, _ = assemble(payloads)
    message = reply.message
    for text in (message.content, message.reasoning, reply.model):
        text.encode()
    for call in message.tool_calls:
        (call.id + call.name + call.arguments).encode()


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_decode_or_are_no_json(data: bytes) -> None:
    """Nothing but `NotJSON` comes out of the decoder."""
    with contextlib.suppress(NotJSON):
        decode_chunk(data)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"x":' * 50_000, b'{"choices":' + b"[" * 50_000])
def test_deep_nesting_is_no_json(data: bytes) -> None:
    """A recursion error of a decoder doesn't escape."""
    with pytest.raises(NotJSON):
        decode_chunk(data)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=12), _cuts)
def test_text_in_pieces_is_scrubbed_as_if_whole(text: str, cuts: list[int]) -> None:
    """Surrogate halves in neighbouring pieces join; lone ones are replaced; all else is untouched."""
    joiner = TextJoiner()
    joined = "".join([joiner.add(piece) for piece in pieces(text, cuts)] + [joiner.finish()])
    assert joined == scrub(text)
    joined.encode()


# Tool calls that are put together by guessing.


def fragments(*parts: tuple[int | None, str | None, str | None, str | None]) -> tuple[ToolCall, ...]:
    numbers = count()
    tools = ToolCallAssembler(lambda: f"new{next(numbers)}")
    for index, identity, name, arguments in parts:
        tools.add(ToolCallWire(index, identity, FunctionWire(name, arguments)))
    return tools.calls()


def test_the_id_and_name_repeated_in_every_fragment_open_nothing() -> None:
    """Some servers repeat them."""
    parts = [(0, "a", "f", '{"x"'), (0, "a", "f", ":1}"), (0, "a", "f", "")]
    assert fragments(*parts) == (ToolCall("a", "f", '{"x":1}'),)


def test_fragments_without_index_follow_the_id_or_the_last_call() -> None:
    """Some servers send no index."""
    parts = [(None, "a", "f", '{"x"'), (None, None, None, ":1}"), (None, "b", "g", "{"), (None, "b", None, "}")]
    assert fragments(*parts) == (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}"))


def test_whole_calls_without_id_at_one_index_stay_apart() -> None:
    """With neither ids nor indexes, a name after complete arguments opens the next call."""
    parts = [(0, None, "f", '{"x":1}'), (0, None, "f", '{"x":2}'), (0, None, "g", "")]
    assert fragments(*parts) == (
        ToolCall("new0", "f", '{"x":1}'),
        ToolCall("new1", "f", '{"x":2}'),
        ToolCall("new2", "g", "{}"),
    )


def test_interleaved_fragments_with_ids_go_to_their_calls() -> None:
    """The id is the better witness than the index."""
    parts = [(0, "a", "f", "{"), (0, "b", "g", "{"), (0, "a", None, "}"), (0, "b", None, "}")]
    assert fragments(*parts) == (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))


def test_an_id_that_comes_late_changes_nothing() -> None:
    """The id that readers were told stays."""
    parts = [(0, None, "f", "{"), (0, "late", None, "}")]
    assert fragments(*parts) == (ToolCall("new0", "f", "{}"),)


def test_an_id_used_twice_is_replaced_in_the_second_call() -> None:
    """Results are matched by id, so two calls never share one."""
    parts = [(0, "a", "f", "{}"), (1, "a", "g", "{}")]
    assert fragments(*parts) == (ToolCall("a", "f", "{}"), ToolCall("new0", "g", "{}"))


def test_new_ids_are_unique() -> None:
    """Across many calls no synthesised id comes twice."""
    assert len({new_call_id() for _ in range(1000)}) == 1000
