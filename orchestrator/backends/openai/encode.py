"""A model request as the JSON body of `POST /chat/completions`.

Always streamed, with usage asked for, whatever the caller wants to see. Dialect fields in `ModelRequest.extra` pass
through untouched except where they would undo that.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from agents.errors import Refused
from agents.messages import Message, ModelRequest, ToolCall
from orchestrator.dialects.text import encoded


class EncodingRules(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers of the same dialect differ in what they accept.

    `null_content`: what an assistant turn without text carries beside its tool calls; many servers answer 400 to null,
    a few to an empty string. `reasoning_field` names the field in which earlier reasoning goes back, None sends none.
    """

    models: Mapping[str, str] = {}
    null_content: Literal["empty", "keep"] = "empty"
    include_usage: bool = True
    max_tokens: int | None = None
    max_tokens_field: str = "max_tokens"
    reasoning_field: str | None = None

    def server_model(self, name: str) -> str:
        """The server's own name of the model that callers know by this one."""
        return self.models.get(name) or self.models.get("*") or name


def encode_request(request: ModelRequest, rules: EncodingRules) -> bytes:
    """The body. Text with lone surrogates is sent with U+FFFD in their place; what JSON cannot hold is `Refused`."""
    body = request_body(request, rules)
    try:
        return encoded(body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise Refused(f"the request cannot be written as JSON: {exc}", code="invalid_request") from None


def request_body(request: ModelRequest, rules: EncodingRules) -> dict[str, Any]:
    """The body as plain data."""
    body: dict[str, Any] = dict(request.extra)
    if body.pop("n", None) not in (None, 1):
        raise Refused("a model request asks for one answer: n must be 1", code="invalid_request")
    options = body.pop("stream_options", None)
    body["model"] = rules.server_model(request.model)
    body["messages"] = [_message(message, rules) for message in request.messages]
    body["stream"] = True
    if rules.include_usage:
        body["stream_options"] = {**(options if isinstance(options, Mapping) else {}), "include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    max_tokens = request.max_tokens if request.max_tokens is not None else rules.max_tokens
    optional = {
        rules.max_tokens_field: max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": request.stop or None,
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
    }
    body.update((name, value) for name, value in optional.items() if value is not None)
    return body


def _message(message: Message, rules: EncodingRules) -> dict[str, Any]:
    content: str | None = message.content
    if not content and message.tool_calls and rules.null_content == "keep":
        content = None
    body: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        body["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.reasoning and rules.reasoning_field is not None:
        body[rules.reasoning_field] = message.reasoning
    return body


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
