"""A canonical model request as the JSON body of `POST /v1/messages`.

Always streamed, whatever the caller wants to see. Dialect fields in `ModelRequest.extra` pass through untouched except
where they would undo that. What has no counterpart is refused with the field's name, never dropped.

| canonical                              | becomes                                                                |
|----------------------------------------|------------------------------------------------------------------------|
| system messages at the beginning       | `system`, joined by blank lines                                        |
| later system messages                  | messages of role `system`, where they stand                            |
| tool results one after another         | `tool_result` blocks of one user message, in their order               |
| messages of one role one after another | blocks of one message, as the API would read them anyway               |
| texts without a visible character      | nothing: the API refuses them                                          |
| tool arguments that are no JSON object | an object whose only member `INVALID_JSON` is what was written         |
| reasoning of earlier answers           | nothing: it may only go back with its signature, which is not kept     |
| a `json_schema` response format        | `output_config.format`, added to an `output_config` of `extra`         |
| `tool_choice` `required`               | `any`                                                                  |

Source: the Claude API reference, "Create a message".
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from msgspec import Struct

from agents.errors import Refused
from agents.messages import Message, ModelRequest, ToolCall
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.messages_assembler import tool_input
from orchestrator.dialects.text import encoded

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_OWN_CHOICES = frozenset({"auto", "any", "tool", "none"})


class MessageRules(Struct, frozen=True, kw_only=True):
    """What the endpoint's configuration adds: names of models (`*` for any other), and the output's usual bound."""

    models: Mapping[str, str] = {}
    default_max_tokens: int = 4096

    def model(self, name: str) -> str:
        """What the server calls the model."""
        return self.models.get(name) or self.models.get("*") or name


def encode_request(request: ModelRequest, rules: MessageRules) -> bytes:
    """The body. Text with lone surrogates is sent with U+FFFD in their place; what JSON cannot hold is `Refused`."""
    body = request_body(request, rules)
    try:
        return encoded(body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise Refused(f"the request cannot be written as JSON: {exc}", code="invalid_request") from None


def request_body(request: ModelRequest, rules: MessageRules) -> dict[str, Any]:
    """The body as plain data. Raises `Untranslatable`."""
    body: dict[str, Any] = dict(request.extra)
    if body.pop("n", None) not in (None, 1):
        raise Untranslatable("n", "a model request asks for one answer, so it must be 1")
    if request.seed is not None:
        raise Untranslatable("seed", "Anthropic's messages have no seed; leave it out")
    body["model"] = rules.model(request.model)
    body["max_tokens"] = request.max_tokens if request.max_tokens is not None else rules.default_max_tokens
    body["stream"] = True
    opening = [message.content for message in takewhile(_is_system, request.messages) if message.content.strip()]
    if opening:
        body["system"] = "\n\n".join(opening)
    body["messages"] = list(_turns(list(dropwhile(_is_system, request.messages))))
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.parameters}}
            for tool in request.tools
        ]
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop_sequences"] = request.stop
    output_format = _output_format(request.response_format)
    if output_format is not None:
        config = body.get("output_config")
        body["output_config"] = {**(config if isinstance(config, Mapping) else {}), "format": output_format}
    return body


def _is_system(message: Message) -> bool:
    return message.role == "system"


def _turns(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Messages of alternating roles, each with all blocks of its turn."""
    role, blocks = "", list[dict[str, Any]]()
    for message in messages:
        added = _blocks(message)
        if not added:
            continue
        own = "user" if message.role == "tool" else message.role
        if own != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = own
        blocks += added
    if blocks:
        yield {"role": role, "content": blocks}


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": message.content}]
    blocks: list[dict[str, Any]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    blocks += [_tool_use(call) for call in message.tool_calls]
    return blocks


def _tool_use(call: ToolCall) -> dict[str, Any]:
    # Arguments go back verbatim, so that a repeated prefix stays the same bytes and numbers keep their digits.
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": tool_input(call.arguments)}


def _tool_choice(choice: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(choice, str):
        if choice not in _CHOICES:
            raise Untranslatable("tool_choice", "must be auto, none, required, or name a function")
        return {"type": _CHOICES[choice]}
    kind, function = choice.get("type"), choice.get("function")
    if kind == "function" and isinstance(function, Mapping) and isinstance(function.get("name"), str):
        return {"type": "tool", "name": function["name"]}
    if kind in _OWN_CHOICES:
        return choice
    raise Untranslatable("tool_choice", "must be auto, none, required, or name a function")


def _output_format(response_format: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if response_format is None or response_format.get("type") == "text":
        return None
    schema = response_format.get("json_schema")
    if response_format.get("type") == "json_schema" and isinstance(schema, Mapping):
        if isinstance(schema.get("schema"), Mapping):
            return {"type": "json_schema", "schema": schema["schema"]}
        raise Untranslatable("response_format.json_schema.schema", "needed: a JSON Schema")
    raise Untranslatable("response_format.type", "Anthropic's messages know json_schema only, or text")
