"""What travels between an agent and a model: pure data, no behaviour beyond addition.

Field names follow the OpenAI chat-completions vocabulary where it has a word for the thing, since that is
the dialect most servers speak; adapters translate to and from it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Raw, Struct

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


class ToolCall(Struct, frozen=True):
    """One tool call as the model wrote it. `arguments` is its JSON text verbatim, valid or not."""

    id: str
    name: str
    arguments: str


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Message(Struct, frozen=True, omit_defaults=True):
    """One entry of a transcript. `tool_call_id` is set exactly on messages of role `tool`."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str = ""


Dialect = Literal["chat", "responses", "embeddings", "messages", "count_tokens"]
"""What a program speaks to a model: OpenAI's chat completions, responses and embeddings; Anthropic's messages and their
token count.
"""


SILENT: frozenset[Dialect] = frozenset({"embeddings", "count_tokens"})
"""Dialects whose answers have no output tokens."""


class WireRequest(Struct, frozen=True):
    """A request as a program wrote it: the members of its JSON object, each value's JSON text verbatim.

    `input_bytes` is the size of its input as far as that is text; what is not (an image) is counted in by whoever made
    this. `headers` are those of the program's own that say how its dialect is meant (`anthropic-beta`), names in lower
    case, never a key. `held_bytes` is what it keeps in memory, images and all, where that is more than its input.
    Nothing in it is interpreted before a backend sends it on.
    """

    dialect: Dialect
    fields: Mapping[str, Raw]
    input_bytes: int
    headers: Mapping[str, str] = {}
    held_bytes: int = 0


class WireEvent(Struct, frozen=True):
    """One server-sent event of an answer: its name, empty for none, and its data verbatim."""

    event: str
    data: bytes


class ModelRequest(Struct, frozen=True, omit_defaults=True):
    """One model request. `extra` holds dialect fields that pass through untouched.

    `max_tokens` bounds the output in tokens; None means the backend's configured default.
    `response_format` is the OpenAI object of that name (for example a JSON schema).
    With `wire` the request is what that says; then the other fields but `model` and `max_tokens` are empty, and answers
    come as events and documents of the same dialect.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = {}
    wire: WireRequest | None = None

    def input_bytes(self) -> int:
        """The size of the input in UTF-8 bytes, template and tool schemas aside from their text."""
        if self.wire is not None:
            return self.wire.input_bytes
        size = 0
        for message in self.messages:
            size += _utf8_length(message.content)
            for call in message.tool_calls:
                size += len(call.name) + _utf8_length(call.arguments)
        for tool in self.tools:
            size += len(tool.name) + _utf8_length(tool.description) + len(str(tool.parameters))
        return size

    def held_bytes(self) -> int:
        """How much memory the request's text takes, in bytes, whatever a model makes of it."""
        size = self.input_bytes()
        return size if self.wire is None else max(size, self.wire.held_bytes)


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class ToolCallDelta(Struct, frozen=True):
    """A fragment of one tool call; `index` is its place in the reply, assigned by the adapter."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Delta(Struct, frozen=True, omit_defaults=True):
    """What one streamed chunk adds. `reset` tells the reader to drop all it has and start again.

    `wire` are the events of the request's own dialect, for a request that has one; `text` is not set then.
    `tokens` is about how many output tokens it brought.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    reset: bool = False
    wire: tuple[WireEvent, ...] = ()
    tokens: int = 1


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider reported them, each counted once; None is unknown and never means 0.

    `input` excludes what was read from a cache (`cached`) and what was written to one (`cache_write`).
    """

    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None

    @property
    def all_input(self) -> int | None:
        """Every input token, cached or not; None while the input is unknown."""
        if self.input is None:
            return None
        return self.input + (self.cached or 0) + (self.cache_write or 0)

    @property
    def total(self) -> int | None:
        """Input and output together; None while either is unknown."""
        all_input = self.all_input
        if all_input is None or self.output is None:
            return None
        return all_input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        """Sums field by field; an unknown term leaves the known one standing."""
        return Usage(
            _sum(self.input, other.input),
            _sum(self.cached, other.cached),
            _sum(self.cache_write, other.cache_write),
            _sum(self.output, other.output),
        )


def _sum(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


class ModelReply(Struct, frozen=True, omit_defaults=True):
    """A whole answer. `malformed` names the tool calls (by id) whose arguments are not a JSON object.

    `wire` is the answer's document, for requests whose dialect has no stream (embeddings, a token count).
    """

    message: Message
    finish_reason: FinishReason
    usage: Usage = Usage()
    model: str = ""
    malformed: tuple[str, ...] = ()
    wire: bytes = b""
