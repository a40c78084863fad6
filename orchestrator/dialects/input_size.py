"""How large a request's input is, from its JSON text, for whoever has to guess its tokens before it is sent.

Counted is the text of the members that a model reads, as JSON: braces and names add some bytes to a message, which
stand for the template's tokens around it, and the owner learns the ratio of tokens to bytes from what is reported.

An image, a file or a sound costs by its own rules and not by its bytes, so each counts as `OTHER_BYTES`, whatever its
size, and its base64 is left out. That is 1,000 tokens of 4 bytes: Anthropic counts width * height / 750 tokens, 1,600
at most ("Vision", Claude documentation); OpenAI 85 plus 170 for each tile of 512 pixels, 765 for a square image
("Images and vision", OpenAI platform documentation).

Known limits: a file of many pages counts as one image; a file of text in base64 counts as one, too.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from agents.messages import Dialect
from orchestrator.dialects.embeddings import embedding_input_bytes

OTHER_BYTES: Final = 4 * 1_000

_READ: Final[Mapping[Dialect, tuple[str, ...]]] = {
    "chat": ("messages", "tools", "functions", "response_format"),
    "responses": ("instructions", "input", "tools", "text"),
    "messages": ("system", "messages", "tools"),
    "count_tokens": ("system", "messages", "tools"),
}

_PART: Final = re.compile(rb'"type"\s*+:\s*+"(?:image_url|image|input_image|input_audio|file|input_file|document)"')
_BASE64: Final = re.compile(
    rb'"(?:data|file_data|url|image_url)"\s*+:\s*+"(?:data:[^",]{0,200}+,)?[A-Za-z0-9+/_-]{512,}+={0,2}"'
)
"""Only members that hold no text: a long word in a message is one, too."""


def input_bytes(dialect: Dialect, fields: Mapping[str, Raw]) -> int:
    """The size of the input in bytes. Raises `BadInput` for an input of embeddings that is none."""
    if dialect == "embeddings":
        return embedding_input_bytes(fields)
    size = 0
    for name in _READ[dialect]:
        raw = fields.get(name)
        if raw is not None:
            size += _size(memoryview(raw))
    return size


def _size(text: memoryview) -> int:
    size = len(text)
    for _ in _PART.finditer(text):
        size += OTHER_BYTES
    for found in _BASE64.finditer(text):
        size -= found.end() - found.start()
    return max(size, 0)
