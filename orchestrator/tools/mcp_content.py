"""What a model reads of a server's result: its texts in order, the rest described, all of it bounded."""

from typing import Final, cast

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

MOST_TEXT: Final = 64 * 1024
"""Bytes of a result that a model is given, in UTF-8."""


def result_text(result: CallToolResult, most: int = MOST_TEXT) -> str:
    """The result for the model, at most `most` bytes and a remark on what was left out.

    Structured content is shown where there is no other: servers say the same in both.
    """
    if result.content:
        text = "\n".join(_part(part) for part in result.content)
    elif result.structured_content is not None:
        text = msgspec.json.encode(result.structured_content).decode()
    else:
        text = ""
    return capped(text, most)


def capped(text: str, most: int) -> str:
    """The text if it has at most `most` bytes, else its beginning and how much is missing."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= most:
        return whole.decode()
    kept = whole[:most].decode("utf-8", "ignore")
    return f"{kept}\n[cut off here: {len(whole) - most} of {len(whole)} bytes are left out]"


def _part(part: object) -> str:
    match part:
        case TextContent():
            return part.text
        case ImageContent() | AudioContent():
            return f"[{part.type}, {part.mime_type}, {_bytes_in(part.data)} bytes]"
        case ResourceLink():
            return f"[resource {part.name}: {part.uri}]"
        case EmbeddedResource(resource=BlobResourceContents() as blob):
            return f"[resource {blob.uri}, {_bytes_in(blob.blob)} bytes]"
        case EmbeddedResource(resource=resource):
            return cast(str, getattr(resource, "text", ""))
    return f"[{getattr(part, 'type', 'something')}, which cannot be shown]"


def _bytes_in(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
