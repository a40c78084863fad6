"""OpenAI's chat completions from the provider's side: requests understood.

Source: OpenAI's API reference, "Chat". Members that a simulated model has no use for are accepted and ignored, as real
servers do; wrong types are refused with 400.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.messages import Message, ModelRequest, ToolCall, ToolSpec
from orchestrator.backends.simulated.chat_writer import ChatWriter
from orchestrator.backends.simulated.dialect import Asked, read
from orchestrator.backends.simulated.errors import wrong
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.wishes import Wishes

MOST_CHOICES = 128
MOST_LOGPROBS = 20
IMAGE_TOKENS, SMALL_IMAGE_TOKENS = 765, 85
"""What an image counts as input, at high and at low detail: of a square picture, by the guide "Images and vision"."""


class _CallFunction(Struct):
    name: str
    arguments: str = ""


class _Call(Struct):
    id: str
    function: _CallFunction


class _Image(Struct):
    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class _Part(Struct):
    type: str
    text: str = ""
    image_url: _Image | None = None


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Function(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(Struct):
    type: Literal["function"]
    function: _Function


class _StreamOptions(Struct):
    include_usage: bool | None = None


class ChatRequest(Struct):
    """The body of `POST /v1/chat/completions`, as far as it matters here."""

    model: str
    messages: list[_Message]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    x_sim: Any = None


_DECODER = msgspec.json.Decoder(ChatRequest)


def ask_chat(provider: SimProvider, body: bytes, number: int) -> Asked:
    """The request that a body is. `number` tells its answer's id from others'. Raises `SimError` 400."""
    chat = read(_DECODER, body)
    _check(chat)
    images = sum(_image_tokens(part) for m in chat.messages if isinstance(m.content, list) for part in m.content)
    wishes = Wishes(choices=chat.n or 1, parallel=chat.parallel_tool_calls is not False, image_tokens=images)
    usage = not chat.stream or (chat.stream_options is not None and bool(chat.stream_options.include_usage))
    logprobs = (chat.top_logprobs or 0) if chat.logprobs else None
    writer = ChatWriter(number, chat.model, wishes.choices, provider.pieces, usage, logprobs, chat.x_sim)
    return Asked(_request(chat), wishes, bool(chat.stream), writer)


def _check(chat: ChatRequest) -> None:
    if chat.n is not None and not 1 <= chat.n <= MOST_CHOICES:
        raise wrong("n", f"{chat.n} is not between 1 and {MOST_CHOICES}")
    if chat.top_logprobs is not None:
        if not chat.logprobs:
            raise wrong("top_logprobs", "needs logprobs to be true")
        if not 0 <= chat.top_logprobs <= MOST_LOGPROBS:
            raise wrong("top_logprobs", f"{chat.top_logprobs} is not between 0 and {MOST_LOGPROBS}")
    if isinstance(chat.tool_choice, str) and chat.tool_choice not in ("none", "auto", "required"):
        raise wrong("tool_choice", f"{chat.tool_choice!r} is none of none, auto and required")
    if chat.stream_options is not None and not chat.stream:
        raise wrong("stream_options", "only allowed when stream is true")


def _request(chat: ChatRequest) -> ModelRequest:
    stop = (chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ())
    return ModelRequest(
        chat.model,
        tuple(_message(i, m) for i, m in enumerate(chat.messages)),
        tools=tuple(
            ToolSpec(t.function.name, t.function.description or "", t.function.parameters or {})
            for t in chat.tools or ()
        ),
        max_tokens=chat.max_completion_tokens or chat.max_tokens,
        temperature=chat.temperature,
        seed=chat.seed,
        stop=stop,
        tool_choice=chat.tool_choice,
        response_format=chat.response_format,
        extra={"x_sim": chat.x_sim} if chat.x_sim else {},
    )


def _message(index: int, message: _Message) -> Message:
    content = message.content
    if isinstance(content, list):
        content = _text(f"messages[{index}].content", content)
    if content is None:
        if message.role != "assistant" or not message.tool_calls:
            raise wrong(f"messages[{index}].content", "null is only allowed beside tool calls")
        content = ""
    if (message.role == "tool") != (message.tool_call_id is not None):
        raise wrong(f"messages[{index}].tool_call_id", "needed on messages of role tool, and only there")
    calls = tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ())
    role = "system" if message.role == "developer" else message.role
    return Message(role, content, calls, message.tool_call_id)


def _text(path: str, parts: Sequence[_Part]) -> str:
    for place, part in enumerate(parts):
        if part.type == "image_url" and part.image_url is None:
            raise wrong(f"{path}[{place}].image_url", "needed on parts of type image_url")
    return "".join(part.text for part in parts)


def _image_tokens(part: _Part) -> int:
    if part.image_url is None:
        return 0
    return SMALL_IMAGE_TOKENS if part.image_url.detail == "low" else IMAGE_TOKENS
