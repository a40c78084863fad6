"""An upper bound of the input tokens of a program's request, for budgets, which must not be overshot.

`input_size` guesses how large an input is; this says how large it can be at most, also where somebody means to deceive.
A byte-level tokenizer makes at most as many tokens of a text as it has bytes (see `agents.size`), and JSON is never
shorter than the text in it. Templates add something around each message and each tool, and may print schemas indented.

An image in the request costs by its size in pixels and not by its bytes: it counts as `IMAGE_TOKENS`. It has to stand
where its dialect has images, since the same object among a tool's arguments is text to the model. A sound or a file in
the request counts by its bytes.

Known limits: what is named by its address, or by an id at the provider, is not here to be measured. It counts as an
image; a file behind an address may have more tokens than that.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from agents.messages import WireRequest
from agents.size import INDENT, MESSAGE_TOKENS, REQUEST_TOKENS, TOOL_TOKENS

IMAGE_TOKENS: Final = 4_096
"""Above what the large providers count for one image: Anthropic 1,600 ("Vision"), OpenAI 765 for a square of tiles and
1,536 patches times at most 2.46 ("Images and vision")."""

DEPTH: Final = 4
"""How deep parts lie in parts: a message, its content, a tool's result, its content."""

_TEXTS: Final = ("messages", "input", "system", "instructions", "prompt")
_SCHEMAS: Final = ("tools", "functions", "response_format", "text", "output_config", "output_format")
_IMAGES: Final = frozenset({"image_url", "image", "input_image"})
_FILES: Final = frozenset({"file", "input_file", "document", "input_audio"})
_PARTS: Final = ("content", "output")

_decode = msgspec.json.Decoder().decode


def input_bound(wire: WireRequest) -> int:
    """The most input tokens that the model can be given for this request."""
    tokens = REQUEST_TOKENS
    for name in _TEXTS:
        raw = wire.fields.get(name)
        if raw is not None:
            tokens += _text_bound(bytes(raw))
    for name in _SCHEMAS:
        raw = wire.fields.get(name)
        if raw is not None:
            text = bytes(raw)
            tokens += INDENT * len(text) + TOOL_TOKENS * text.count(b'"name"')
    return tokens


def _text_bound(raw: bytes) -> int:
    tokens = len(raw) + MESSAGE_TOKENS * (1 + raw.count(b'"role"') + raw.count(b'"type"'))
    if raw.startswith(b"["):
        for kind, blob in _blobs(_decode(raw), DEPTH):
            tokens += IMAGE_TOKENS
            if kind in _IMAGES:
                tokens -= blob
    return tokens


def _blobs(parts: object, depth: int) -> Iterator[tuple[str, int]]:
    """The kind of each part that is no text, and how many bytes of it are an image's own."""
    if not isinstance(parts, list) or not depth:
        return
    for part in parts:
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if isinstance(kind, str) and kind in _IMAGES | _FILES:
            yield kind, _own_bytes(part)
        else:
            for name in _PARTS:
                yield from _blobs(part.get(name), depth - 1)


def _own_bytes(part: Mapping[str, Any]) -> int:
    """The bytes of an image's base64; it is ASCII, so each of its characters is a byte of the JSON at least."""
    source = part.get("source")
    where = part.get("image_url")
    data = source.get("data") if isinstance(source, dict) else where.get("url") if isinstance(where, dict) else where
    return len(data) if isinstance(data, str) else 0
