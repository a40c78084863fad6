"""OpenAI's responses from the provider's side: requests understood.

Source: OpenAI's API reference, "Responses". Nothing is stored: what refers to an earlier response or conversation is
refused. Tools that the provider runs itself are accepted and never called.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.messages import Message, ModelRequest, ToolCall, ToolSpec
from orchestrator.backends.simulated.chat import IMAGE_TOKENS, MOST_LOGPROBS, SMALL_IMAGE_TOKENS
from orchestrator.backends.simulated.dialect import Asked, read
from orchestrator.backends.simulated.errors import wrong
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.responses_writer import ResponsesWriter
from orchestrator.backends.simulated.wishes import Wishes

REASONING = 2048
"""How much a model thinks at most where a request asks to see it, in tokens."""

_LOGPROBS = "message.output_text.logprobs"


class _Part(Struct):
    type: str
    text: str = ""
    detail: str | None = None


class _Item(Struct):
    """One item of the input, of any type that is understood."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[_Part] | None = None


class _Tool(Struct):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Text(Struct):
    format: dict[str, Any] | None = None


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None


class ResponsesRequest(Struct):
    """The body of `POST /v1/responses`, as far as it matters here."""

    model: str
    input: str | list[_Item]
    instructions: str | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    x_sim: Any = None


_DECODER = msgspec.json.Decoder(ResponsesRequest)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ECHOED = (
    "instructions", "metadata", "max_output_tokens", "parallel_tool_calls", "reasoning", "service_tier", "temperature",
    "text", "tool_choice", "tools", "top_p", "truncation", "user",
)  # fmt: skip


def ask_responses(provider: SimProvider, body: bytes, number: int) -> Asked:
    """The request that a body is. `number` tells its answer's ids from others'. Raises `SimError` 400."""
    asked = read(_DECODER, body)
    _check(asked)
    messages = [Message("system", asked.instructions)] if asked.instructions else []
    messages += _messages(asked)
    request = ModelRequest(
        asked.model,
        tuple(messages),
        tools=tuple(
            ToolSpec(tool.name or "", tool.description or "", tool.parameters or {})
            for tool in asked.tools or ()
            if tool.type == "function"
        ),
        max_tokens=asked.max_output_tokens,
        temperature=asked.temperature,
        tool_choice=_choice(asked.tool_choice),
        response_format=_format(asked.text),
        extra={"x_sim": asked.x_sim} if asked.x_sim else {},
    )
    given = _MEMBERS.decode(body)
    writer = ResponsesWriter(
        number,
        asked.model,
        {name: given[name] for name in _ECHOED if name in given},
        provider.pieces,
        (asked.top_logprobs or 0) if _LOGPROBS in (asked.include or ()) else None,
        asked.x_sim,
    )
    return Asked(request, _wishes(asked), bool(asked.stream), writer)


def _check(asked: ResponsesRequest) -> None:
    if asked.previous_response_id is not None:
        raise wrong("previous_response_id", f"no response {asked.previous_response_id!r} is stored: none ever is")
    if asked.conversation is not None:
        raise wrong("conversation", "no conversation is stored")
    if asked.background:
        raise wrong("background", "answers are made while the client waits")
    if asked.max_output_tokens is not None and asked.max_output_tokens < 1:
        raise wrong("max_output_tokens", "at least 1 is needed")
    if asked.top_logprobs is not None and not 0 <= asked.top_logprobs <= MOST_LOGPROBS:
        raise wrong("top_logprobs", f"{asked.top_logprobs} is not between 0 and {MOST_LOGPROBS}")
    if isinstance(asked.tool_choice, str) and asked.tool_choice not in ("none", "auto", "required"):
        raise wrong("tool_choice", f"{asked.tool_choice!r} is none of none, auto and required")
    for place, tool in enumerate(asked.tools or ()):
        if tool.type == "function" and not tool.name:
            raise wrong(f"tools[{place}].name", "needed on tools of type function")
    if not asked.input:
        raise wrong("input", "at least one item is needed")


def _messages(asked: ResponsesRequest) -> list[Message]:
    """The input as messages; calls belong to the assistant's message that they follow, or make one."""
    if isinstance(asked.input, str):
        return [Message("user", asked.input)]
    messages: list[Message] = []
    open_calls: set[str] = set()
    for path, item in _items(asked.input):
        if item.type == "message":
            messages.append(_message(path, item))
        elif item.type == "function_call":
            call = _call(path, item)
            open_calls.add(call.id)
            last = messages[-1] if messages else None
            if last is not None and last.role == "assistant":
                messages[-1] = Message("assistant", last.content, (*last.tool_calls, call))
            else:
                messages.append(Message("assistant", "", (call,)))
        elif item.type == "function_call_output":
            if item.call_id not in open_calls:
                raise wrong(
                    f"{path}.call_id", f"no tool call found for function call output with call_id {item.call_id}"
                )
            messages.append(Message("tool", _text(item.output), tool_call_id=item.call_id))
    return messages


def _items(items: Sequence[_Item]) -> Iterator[tuple[str, _Item]]:
    """The items that a model reads, with their paths; its own earlier reasoning is none of them."""
    for place, item in enumerate(items):
        path = f"input[{place}]"
        if item.type in ("message", "function_call", "function_call_output"):
            yield path, item
        elif item.type != "reasoning":
            raise wrong(f"{path}.type", f"a simulated model knows no items of type {item.type!r}")


def _message(path: str, item: _Item) -> Message:
    if item.role is None:
        raise wrong(f"{path}.role", "needed on messages")
    if item.content is None:
        raise wrong(f"{path}.content", "needed on messages")
    return Message("system" if item.role == "developer" else item.role, _text(item.content))


def _call(path: str, item: _Item) -> ToolCall:
    if item.call_id is None or item.name is None or item.arguments is None:
        raise wrong(path, "a function_call needs call_id, name and arguments")
    return ToolCall(item.call_id, item.name, item.arguments)


def _text(content: str | list[_Part] | None) -> str:
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") != "function":
        return None
    return {"type": "function", "function": {"name": choice.get("name")}}


def _format(text: _Text | None) -> dict[str, Any] | None:
    format_ = text.format if text is not None else None
    if format_ is None or format_.get("type") != "json_schema":
        return format_
    if not isinstance(format_.get("schema"), dict):
        raise wrong("text.format.schema", "needed beside the type json_schema")
    return {"type": "json_schema", "json_schema": {"schema": format_["schema"]}}


def _wishes(asked: ResponsesRequest) -> Wishes:
    items = asked.input if isinstance(asked.input, list) else []
    contents = [content for item in items for content in (item.content, item.output) if isinstance(content, list)]
    images = [part for content in contents for part in content if part.type == "input_image"]
    shown = asked.reasoning is not None and asked.reasoning.summary is not None and asked.reasoning.effort != "none"
    return Wishes(
        thinking=REASONING if shown else 0,
        parallel=asked.parallel_tool_calls is not False,
        image_tokens=sum(SMALL_IMAGE_TOKENS if image.detail == "low" else IMAGE_TOKENS for image in images),
    )
