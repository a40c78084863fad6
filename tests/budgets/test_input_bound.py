"""The most input tokens of a program's request."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from agents.messages import Dialect, WireRequest
from orchestrator.dialects.input_bound import IMAGE_TOKENS, input_bound

BLOB = "A" * 100_000


def wire(dialect: Dialect = "chat", **fields: Any) -> WireRequest:
    return WireRequest(dialect, {name: Raw(json.dumps(value).encode()) for name, value in fields.items()}, 0)


@given(st.lists(st.text(max_size=80), max_size=6), st.text(max_size=80))
def test_no_text_has_more_bytes_than_its_bound(texts: list[str], system: str) -> None:
    """A byte-level tokenizer cannot make more tokens than the texts have bytes in UTF-8."""
    messages = [{"role": "user", "content": text} for text in texts]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in (*texts, system))
    assert input_bound(wire(messages=messages)) >= size - len(system.encode("utf-8", "surrogatepass"))
    assert input_bound(wire("messages", messages=messages, system=system)) >= size
    assert input_bound(wire("responses", input=messages, instructions=system)) >= size
    assert input_bound(wire("embeddings", input=texts)) >= size - len(system.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("dialect", "name", "part"),
    [
        ("chat", "messages", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BLOB}"}}),
        ("responses", "input", {"type": "input_image", "image_url": f"data:image/png;base64,{BLOB}"}),
        ("messages", "messages", {"type": "image", "source": {"type": "base64", "data": BLOB}}),
        (
            "messages",
            "messages",
            {"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": BLOB}}]},
        ),
    ],
)
def test_an_image_counts_as_one_and_not_by_its_bytes(dialect: Dialect, name: str, part: Any) -> None:
    """Where its dialect has images, base64 is pixels: a budget must not refuse a picture for its size on the wire."""
    bound = input_bound(wire(dialect, **{name: [{"role": "user", "content": [part]}]}))
    assert IMAGE_TOKENS <= bound < IMAGE_TOKENS + 1000


@pytest.mark.parametrize(
    "content",
    [
        BLOB,
        [{"type": "text", "text": BLOB}],
        [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}, {"type": "text", "text": BLOB}],
        [{"type": "tool_use", "id": "t", "name": "f", "input": {"content": [{"type": "image", "image_url": BLOB}]}}],
        [{"type": "tool_use", "id": "t", "name": "f", "input": {"type": "image", "source": {"data": BLOB}}}],
        [{"type": "document", "source": {"type": "text", "data": BLOB}}],
        [{"type": "input_audio", "input_audio": {"data": BLOB, "format": "wav"}}],
    ],
)
def test_text_that_looks_like_an_image_counts_by_its_bytes(content: Any) -> None:
    """Base64 in words, in a tool's arguments, in a file or beside an image is read as text, so it is no way around."""
    assert input_bound(wire(messages=[{"role": "user", "content": content}])) >= len(BLOB)


def test_schemas_may_be_printed_indented() -> None:
    """A template can make several times their bytes of tools and of an answer's schema."""
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50)}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    printed = len(json.dumps(tools, indent=4))
    assert input_bound(wire(messages=[], tools=tools)) >= printed
    assert input_bound(wire(messages=[], response_format={"type": "json_schema", "json_schema": schema})) > 1000


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=8
    )
)
def test_whatever_stands_there_has_a_bound(value: Any) -> None:
    """Messages that are no messages are for others to refuse; the bound of them is a number all the same."""
    assert input_bound(wire(messages=value)) > 0
    assert input_bound(wire(messages=[{"role": "user", "content": value, "type": value}])) > 0
    assert input_bound(wire(messages=[{"type": "image", "source": value, "image_url": value}])) > 0
