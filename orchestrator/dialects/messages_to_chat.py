"""A request of Anthropic's messages dialect as one of chat completions.

| member                                         | what becomes of it                                         |
|------------------------------------------------|-----------------------------------------------------------|
| `system`, `messages`                           | `messages`, see `messages_turns`                           |
| `tools`                                        | functions; tools that the provider itself runs are refused |
| `tool_choice`                                  | the same in chat's words, with `parallel_tool_calls`       |
| `max_tokens`, `temperature`, `top_p`, `stream` | as they are                                                |
| `stop_sequences`                               | `stop`                                                     |
| `metadata.user_id`                             | `user`                                                     |
| `output_config.format`, `.effort`              | `response_format`, `reasoning_effort`                      |
| `thinking`: `enabled`                          | `reasoning_effort`, by its budget                          |
| `thinking`: `adaptive`, `disabled`             | nothing: how much a model reasons unasked is its own       |
| `service_tier`                                 | nothing: whose capacity is used changes no answer          |
| `cache_control`, here and everywhere inside    | nothing: it changes no answer                              |
| everything else, known or not                  | refused                                                    |
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.messages_turns import chat_messages
from orchestrator.dialects.said import Said, decoded

BACKEND: Final = "its model's backend speaks chat completions, which"

_AS_THEY_ARE: Final = ("model", "max_tokens", "temperature", "top_p", "stream")
_BUDGETS: Final = ((4_096, "low"), (16_384, "medium"))
"""Up to how many tokens of thinking each effort stands for; above them it is `high`."""
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_STREAMING_ONLY: Final = ("eager_input_streaming",)
"""Members of a tool that say in what pieces its input comes, and change nothing of it."""


def translate(wire: WireRequest) -> WireRequest:
    """The request in chat completions. Raises `Untranslatable` with the path of what chat has no words for."""
    said = decoded(wire)
    fields: dict[str, Any] = {"messages": chat_messages(said.take("system"), said.take("messages"))}
    fields.update((name, value) for name in _AS_THEY_ARE if (value := said.take(name)) is not None)
    tools = [_tool(tool) for tool in said.each("tools")]
    if tools:
        fields["tools"] = tools
    fields.update(_tool_choice(said.inner("tool_choice")))
    stop = said.take("stop_sequences")
    if stop:
        fields["stop"] = stop
    fields.update(_metadata(said.inner("metadata")))
    fields.update(_thinking(said.inner("thinking")))
    fields.update(_output(said.inner("output_config")))
    said.drop("service_tier")
    said.end(BACKEND)
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    return WireRequest("chat", raw, wire.input_bytes, wire.headers)


def _tool(tool: Said) -> dict[str, Any]:
    kind = tool.text("type") or "custom"
    if kind != "custom":
        raise tool.wrong(
            "type", f"{BACKEND} has no tool {kind!r} that the provider runs itself; declare one of your own"
        )
    function: dict[str, Any] = {"name": tool.needed("name")}
    description = tool.text("description")
    if description is not None:
        function["description"] = description
    function["parameters"] = tool.take("input_schema") or {"type": "object", "properties": {}}
    strict = tool.flag("strict")
    if strict is not None:
        function["strict"] = strict
    tool.drop(*_STREAMING_ONLY)
    if tool.left.get("defer_loading") is False:
        tool.drop("defer_loading")
    if tool.left.get("allowed_callers") == ["direct"]:
        tool.drop("allowed_callers")
    tool.end(BACKEND)
    return {"type": "function", "function": function}


def _tool_choice(choice: Said | None) -> dict[str, Any]:
    if choice is None:
        return {}
    kind = choice.needed("type")
    fields: dict[str, Any] = {}
    if kind == "tool":
        fields["tool_choice"] = {"type": "function", "function": {"name": choice.needed("name")}}
    elif kind in _CHOICES:
        fields["tool_choice"] = _CHOICES[kind]
    else:
        raise choice.wrong("type", "must be auto, any, tool or none")
    single = choice.flag("disable_parallel_tool_use")
    if single is not None:
        fields["parallel_tool_calls"] = not single
    choice.end(BACKEND)
    return fields


def _metadata(metadata: Said | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    user = metadata.text("user_id")
    metadata.end(BACKEND)
    return {"user": user} if user is not None else {}


def _thinking(thinking: Said | None) -> dict[str, Any]:
    if thinking is None:
        return {}
    kind = thinking.needed("type")
    if kind not in ("enabled", "adaptive", "disabled"):
        raise thinking.wrong("type", "must be enabled, adaptive or disabled for a backend that speaks chat completions")
    budget = thinking.take("budget_tokens")
    # Whether thinking is shown is up to the server, and changes nothing of what it comes to.
    thinking.drop("display")
    thinking.end(BACKEND)
    if kind != "enabled" or not isinstance(budget, int):
        return {}
    return {"reasoning_effort": next((effort for most, effort in _BUDGETS if budget <= most), "high")}


def _output(config: Said | None) -> dict[str, Any]:
    if config is None:
        return {}
    fields: dict[str, Any] = {}
    effort = config.text("effort")
    if effort is not None:
        fields["reasoning_effort"] = effort
    form = config.inner("format")
    if form is not None:
        fields["response_format"] = _format(form)
    config.end(BACKEND)
    return fields


def _format(form: Said) -> dict[str, Any]:
    if form.needed("type") != "json_schema":
        raise form.wrong("type", "must be json_schema")
    schema = form.take("schema")
    if not isinstance(schema, dict):
        raise Untranslatable(form.at("schema"), "must be an object")
    form.end(BACKEND)
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
