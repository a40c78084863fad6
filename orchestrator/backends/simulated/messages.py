"""Anthropic's messages from the provider's side: requests understood, and checked the way the provider does.

Source: Anthropic's API reference, "Messages", "Count tokens", "Tool use", "Extended thinking", "Prompt caching". Tools
that the provider runs itself are accepted and never called. Turns of one role in a row are one turn. Thoughts in the
history have to carry the signature that they came with. What can be cached has no least size here.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.messages import Message, ModelRequest, ToolSpec
from orchestrator.backends.simulated.dialect import Asked, read
from orchestrator.backends.simulated.errors import wrong
from orchestrator.backends.simulated.messages_writer import MessagesWriter
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.turns import Block, Turn, check_turns, image_tokens, messages_of, text_of
from orchestrator.backends.simulated.wishes import Wishes

LEAST_THINKING = 1024
ADAPTIVE_THINKING = 4096
"""How much a model that decides for itself thinks at most, in tokens."""


class _Tool(Struct):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None


class _ToolChoice(Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(Struct):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None


class _OutputFormat(Struct):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class _OutputConfig(Struct):
    format: _OutputFormat | None = None


class Prompt(Struct):
    """What a request to count tokens has, and one for an answer begins with."""

    model: str
    messages: list[Turn]
    system: str | list[Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: _OutputFormat | None = None
    cache_control: dict[str, Any] | None = None
    x_sim: Any = None


class MessagesRequest(Prompt, kw_only=True):
    """The body of `POST /v1/messages`, as far as it matters here."""

    max_tokens: int
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None


_DECODER = msgspec.json.Decoder(MessagesRequest)
_PROMPTS = msgspec.json.Decoder(Prompt)


def ask_messages(provider: SimProvider, body: bytes, number: int) -> Asked:
    """The request that a body is. `number` tells its answer's id from others'. Raises `SimError` 400."""
    asked = read(_DECODER, body)
    _check(asked)
    request = _request(asked, asked.max_tokens, asked.temperature, tuple(asked.stop_sequences or ()))
    writer = MessagesWriter(number, asked.model, asked.x_sim)
    return Asked(request, _wishes(asked, request), bool(asked.stream), writer)


def ask_count(body: bytes) -> tuple[ModelRequest, Wishes]:
    """The prompt whose tokens are to be counted. Raises `SimError` 400."""
    prompt = read(_PROMPTS, body)
    _check_prompt(prompt)
    request = _request(prompt)
    return request, _wishes(prompt, request)


def count_document(tokens: int) -> bytes:
    """The answer to it."""
    return msgspec.json.encode({"input_tokens": tokens})


def check_version(headers: dict[str, str]) -> None:
    """Every request says which version of the API it is written for. Raises `SimError` 400."""
    version = headers.get("anthropic-version")
    if version is None:
        raise wrong("anthropic-version", "header is required")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", version):
        raise wrong("anthropic-version", f'"{version}" is not a valid version')


def _check(asked: MessagesRequest) -> None:
    if asked.max_tokens < 1:
        raise wrong("max_tokens", "must be greater than or equal to 1")
    if asked.temperature is not None and not 0.0 <= asked.temperature <= 1.0:
        raise wrong("temperature", f"{asked.temperature} is not between 0 and 1")
    for place, sequence in enumerate(asked.stop_sequences or ()):
        if not sequence.strip():
            raise wrong(f"stop_sequences.{place}", "each stop sequence must contain non-whitespace")
    thinking = asked.thinking
    if thinking is not None and thinking.type == "enabled":
        if (thinking.budget_tokens or 0) >= asked.max_tokens:
            raise wrong("max_tokens", "must be greater than thinking.budget_tokens")
        if asked.temperature not in (None, 1.0):
            raise wrong("temperature", "may only be 1 when thinking is enabled")
    _check_prompt(asked)


def _check_prompt(prompt: Prompt) -> None:
    if isinstance(prompt.system, list):
        for place, block in enumerate(prompt.system):
            if block.type != "text":
                raise wrong(f"system.{place}.type", f"'{block.type}' is not 'text'")
    thinking = prompt.thinking
    if thinking is not None and thinking.type == "enabled":
        if thinking.budget_tokens is None:
            raise wrong("thinking.enabled.budget_tokens", "Field required")
        if thinking.budget_tokens < LEAST_THINKING:
            raise wrong("thinking.enabled.budget_tokens", f"must be greater than or equal to {LEAST_THINKING}")
        if prompt.tool_choice is not None and prompt.tool_choice.type in ("any", "tool"):
            raise wrong("tool_choice.type", "thinking may not be enabled when a tool is forced")
    _check_tools(prompt)
    check_turns(prompt.messages)


def _check_tools(prompt: Prompt) -> None:
    for place, tool in enumerate(prompt.tools or ()):
        if tool.type not in (None, "custom"):
            continue
        if tool.input_schema is None:
            raise wrong(f"tools.{place}.custom.input_schema", "Field required")
        if tool.input_schema.get("type") != "object":
            raise wrong(f"tools.{place}.custom.input_schema.type", "Input should be 'object'")
    choice = prompt.tool_choice
    if choice is None:
        return
    if not prompt.tools and choice.type != "none":
        raise wrong("tool_choice", "may only be specified while providing tools")
    if choice.type == "tool" and choice.name not in [tool.name for tool in prompt.tools or ()]:
        raise wrong("tool_choice.name", f"tool '{choice.name}' not found in provided tools")


def _request(
    prompt: Prompt, max_tokens: int | None = None, temperature: float | None = None, stop: tuple[str, ...] = ()
) -> ModelRequest:
    format_ = (prompt.output_config and prompt.output_config.format) or prompt.output_format
    return ModelRequest(
        prompt.model,
        tuple(_system(prompt)) + tuple(messages_of(prompt.messages)),
        tools=tuple(
            ToolSpec(tool.name, tool.description or "", tool.input_schema or {})
            for tool in prompt.tools or ()
            if tool.type in (None, "custom")
        ),
        max_tokens=max_tokens,
        temperature=temperature,
        stop=stop,
        tool_choice=_choice(prompt.tool_choice),
        response_format={"type": "json_schema", "json_schema": {"schema": format_.schema}} if format_ else None,
        extra={"x_sim": prompt.x_sim} if prompt.x_sim else {},
    )


def _system(prompt: Prompt) -> list[Message]:
    text = prompt.system if isinstance(prompt.system, str) else text_of(prompt.system or ())
    return [Message("system", text)] if text else []


def _choice(choice: _ToolChoice | None) -> str | dict[str, Any] | None:
    if choice is None:
        return None
    if choice.type == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return {"auto": "auto", "any": "required", "none": "none"}[choice.type]


def _wishes(prompt: Prompt, request: ModelRequest) -> Wishes:
    thinking = 0
    if prompt.thinking is not None and prompt.thinking.type in ("enabled", "adaptive"):
        thinking = prompt.thinking.budget_tokens or ADAPTIVE_THINKING
    return Wishes(
        thinking=thinking,
        parallel=not (prompt.tool_choice is not None and prompt.tool_choice.disable_parallel_tool_use),
        image_tokens=image_tokens(prompt.messages),
        cache_upto=_cache_upto(prompt, request),
    )


def _cache_upto(prompt: Prompt, request: ModelRequest) -> int:
    """How many of the request's messages stand before the last mark of what is to be cached."""
    if prompt.cache_control is not None:
        return len(request.messages)
    system = len(_system(prompt))
    for place in range(len(prompt.messages) - 1, -1, -1):
        if prompt.messages[place].marked:
            return system + len(list(messages_of(prompt.messages[: place + 1])))
    marked = isinstance(prompt.system, list) and any(block.cache_control for block in prompt.system)
    return system if marked else 0
