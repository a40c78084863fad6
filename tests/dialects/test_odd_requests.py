"""Requests that no SDK would send: translation refuses them by a path, and never fails in another way."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages import Dialect
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.encode import encode_upstream
from tests.dialects.dialect_events import request

_TOP = st.sampled_from(
    [
        "messages",
        "system",
        "tools",
        "tool_choice",
        "stop",
        "stop_sequences",
        "metadata",
        "thinking",
        "output_config",
        "response_format",
        "reasoning_effort",
        "max_tokens",
        "temperature",
        "parallel_tool_calls",
        "stream_options",
    ]
)
_NAMES = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "source",
        "tool_use_id",
        "id",
        "name",
        "input",
        "function",
        "arguments",
        "tool_calls",
        "tool_call_id",
        "media_type",
        "data",
        "is_error",
        "json_schema",
        "schema",
        "format",
    ]
)
_WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "tool",
        "text",
        "image",
        "image_url",
        "tool_use",
        "tool_result",
        "base64",
        "url",
        "thinking",
        "function",
        "json_schema",
        "auto",
        "any",
        "enabled",
        "data:image/png;base64,AA",
        "https://x",
        "{}",
    ]
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | _WORDS | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": _WORDS, "content": _VALUES}, optional={"tool_calls": _VALUES}),
    max_size=3,
)


@pytest.mark.parametrize(("program", "native"), [("chat", "messages"), ("messages", "chat"), ("chat", "chat")])
@settings(max_examples=60)
@given(fields=st.dictionaries(_TOP, _VALUES, max_size=3), messages=_MESSAGES | _VALUES)
def test_any_request_is_translated_or_refused_by_a_path(
    program: Dialect, native: Dialect, fields: dict[str, Any], messages: Any
) -> None:
    """Whatever a program sends, it becomes a body, or a refusal that begins with where the trouble is."""
    refused: Untranslatable | None = None
    body = b""
    try:
        body = encode_upstream(request(program, **{**fields, "messages": messages}), native, model="m")
    except Untranslatable as exc:
        refused = exc

    if refused is None:
        assert b'"model":"m"' in body
    else:
        assert refused.field
        assert str(refused).startswith(f"{refused.field}: ")
