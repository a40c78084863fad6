"""An upper bound of a request's input tokens, without asking the provider.

A byte-level tokenizer (BPE over bytes, as in GPT, Llama, Qwen and SmolLM) never makes more tokens of a text than the
text has UTF-8 bytes, since every token covers at least one byte. What the chat template adds around the text is
bounded by a constant per message, per tool call and per request.

Known limits: the bound is loose (English has about four bytes per token), it counts nothing for images or audio, and
a server that puts a long system prompt of its own in front exceeds it.
"""

from typing import Final

import msgspec

from agents.messages import Message, ModelRequest

REQUEST_TOKENS: Final = 128
"""Template tokens per request: begin of text, a default system turn, the generation prompt."""
MESSAGE_TOKENS: Final = 16
"""Template tokens per message: role, separators, end of turn."""
TOOL_TOKENS: Final = 64
"""Template tokens per tool or tool call: tags, the JSON around its parts, an id."""
INDENT: Final = 4
"""A template may print a JSON schema with indentation: at most this many times its compact bytes."""


def input_bound(request: ModelRequest) -> int:
    """The most input tokens that a byte-level tokenizer can make of this request."""
    tokens = REQUEST_TOKENS + sum(_message_bound(message) for message in request.messages)
    for tool in request.tools:
        tokens += TOOL_TOKENS + _bytes(tool.name) + _bytes(tool.description)
        tokens += INDENT * len(msgspec.json.encode(tool.parameters))
    if request.response_format is not None:
        tokens += INDENT * len(msgspec.json.encode(request.response_format))
    return tokens


def _message_bound(message: Message) -> int:
    tokens = MESSAGE_TOKENS + _bytes(message.content) + _bytes(message.reasoning) + _bytes(message.tool_call_id or "")
    for call in message.tool_calls:
        tokens += TOOL_TOKENS + _bytes(call.id) + _bytes(call.name) + _bytes(call.arguments)
    return tokens


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
