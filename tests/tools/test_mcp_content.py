"""What a model reads of results of MCP servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from orchestrator.tools.mcp_content import capped, result_text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (CallToolResult(content=[]), ""),
        (CallToolResult(content=[], structured_content={"a": [1]}), '{"a":[1]}'),
        (CallToolResult(content=[TextContent(text="a"), TextContent(text="b")], structured_content={"a": 1}), "a\nb"),
        (CallToolResult(content=[AudioContent(data="YQ==", mime_type="audio/wav")]), "[audio, audio/wav, 1 bytes]"),
        (CallToolResult(content=[ResourceLink(name="n", uri="file:///x")]), "[resource n: file:///x]"),
        (CallToolResult(content=[EmbeddedResource(resource=TextResourceContents(uri="file:///x", text="t"))]), "t"),
        (
            CallToolResult(content=[EmbeddedResource(resource=BlobResourceContents(uri="file:///x", blob="YWI="))]),
            "[resource file:///x, 2 bytes]",
        ),
    ],
)
def test_every_kind_of_content_is_shown_or_described(result: CallToolResult, text: str) -> None:
    """Texts as they are, the rest by kind and size, structured content where there is no other."""
    assert result_text(result) == text


@given(st.text(st.characters(exclude_categories=[])), st.integers(0, 40))
def test_what_is_cut_is_still_text_and_says_how_much_is_missing(text: str, most: int) -> None:
    """The cut never splits a character, nor does half a character in the text break anything."""
    shown = capped(text, most)
    whole = text.encode("utf-8", "replace")
    if len(whole) <= most:
        assert shown == whole.decode()
    else:
        kept, _, remark = shown.rpartition("\n[cut off here: ")
        assert len(kept.encode()) <= most
        assert whole.startswith(kept.encode())
        assert remark == f"{len(whole) - most} of {len(whole)} bytes are left out]"
