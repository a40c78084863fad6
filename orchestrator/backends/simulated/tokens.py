"""The simulated provider's tokenizer: words and pieces, a stable function of the text.

Real tokenizers differ from any client's estimate by bytes, in ways that depend on the text; this one does too. A token
is a run of at most six ASCII letters with the blank before it, of at most three digits, of blanks, of two characters
outside ASCII, or one other character. The tokens of a text, put together, are the text. In exact mode a token is four
characters, and input counts bytes / 4, so that an estimate by bytes is right.
"""

import json
import re
from typing import Any

import msgspec

from agents.messages import ModelRequest

_PIECES = re.compile(r" ?[A-Za-z]{1,6}| ?[0-9]{1,3}|\s+|[^\x00-\x7f]{1,2}|.", re.DOTALL)
_EXACT = re.compile(r".{1,4}", re.DOTALL)

MESSAGE_OVERHEAD = 4
"""Tokens that the chat template adds to each message."""


class Tokenizer:
    """Splits and counts, in one of the two modes."""

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        self._pattern = _EXACT if exact else _PIECES

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        return self._pattern.findall(text)

    def count(self, text: str) -> int:
        return sum(1 for _ in self._pattern.finditer(text))

    def count_input(self, request: ModelRequest) -> int:
        """The input tokens of a request, at least 1."""
        if self.exact:
            return max(1, -(-request.input_bytes() // 4))
        tokens = MESSAGE_OVERHEAD
        for message in request.messages:
            tokens += MESSAGE_OVERHEAD + self.count(message.content)
            for call in message.tool_calls:
                tokens += MESSAGE_OVERHEAD + self.count(call.name) + self.count(call.arguments)
        for tool in request.tools:
            schema = canonical(tool.parameters).decode()
            tokens += MESSAGE_OVERHEAD + self.count(tool.name) + self.count(tool.description) + self.count(schema)
        return tokens


def canonical(value: Any) -> bytes:
    """Plain data as bytes that depend on it alone; text that is no Unicode (lone surrogates) does no harm."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()
