"""A request of chat completions as one of Anthropic's messages dialect.

| member                                        | what becomes of it                                         |
|-----------------------------------------------|-----------------------------------------------------------|
| `messages`                                    | `system` and `messages`, see `chat_turns`                  |
| `max_completion_tokens`, or else `max_tokens` | `max_tokens`; where it is missing `DEFAULT_MAX_TOKENS`     |
| `tools`, `tool_choice`, `parallel_tool_calls` | the same in the dialect's words                            |
| `stop`                                        | `stop_sequences`                                           |
| `temperature`, `top_p`, `stream`              | as they are; a temperature above 1 is refused              |
| `user`, or else `safety_identifier`           | `metadata.user_id`                                         |
| `response_format`: `json_schema`              | `output_config.format`, which always holds strictly        |
| `reasoning_effort`                            | `output_config.effort`; for `none`: `thinking`: `disabled` |
| `thinking`, `top_k`                           | as they are: Anthropic's words, sent on purpose            |
| `stream_options`                              | nothing here: the answer's translator looks at them        |
| price, speed, labels (`_NO_MATTER`)           | nothing: they change no answer                             |
| what only says the default (`_DEFAULTS`)      | nothing                                                    |
| everything else, known or not                 | refused: `n`, `logprobs`, `seed`, penalties, audio, ...    |
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.chat_turns import turns
from orchestrator.dialects.said import Said, decoded

BACKEND: Final = "its model's backend speaks Anthropic's messages, which"
DEFAULT_MAX_TOKENS: Final = 4096
"""The bound on the output of a request that has none, in tokens; every model of the dialect takes it."""

_AS_THEY_ARE: Final = ("model", "temperature", "top_p", "stream", "thinking", "top_k")
_NO_MATTER: Final = (
    "stream_options",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "prediction",
    "metadata",
    "service_tier",
)
_DEFAULTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "store": (False,),
    "verbosity": ("medium",),
    "functions": ([],),
}
"""Values that ask for nothing."""
_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


def translate(wire: WireRequest) -> WireRequest:
    """The request in Anthropic's words. Raises `Untranslatable` with the path of what it has no words for."""
    said = decoded(wire)
    fields: dict[str, Any] = dict(turns(said.take("messages")))
    fields["max_tokens"] = _max_tokens(said)
    fields.update(_tools(said))
    _check_temperature(said)
    fields.update((name, value) for name in _AS_THEY_ARE if (value := said.take(name)) is not None)
    stop = said.take("stop")
    if stop:
        fields["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    names = [said.text("user"), said.text("safety_identifier")]
    user = next((name for name in names if name), None)
    if user is not None:
        fields["metadata"] = {"user_id": user}
    fields.update(_reasoning(said, fields))
    form = said.inner("response_format")
    if form is not None:
        fields.setdefault("output_config", {}).update(_format(form))
    if not fields.get("output_config", True):
        del fields["output_config"]
    said.drop(*_NO_MATTER)
    said.drop(*(name for name, values in _DEFAULTS.items() if said.left.get(name) in values))
    said.end(BACKEND)
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    return WireRequest("messages", raw, wire.input_bytes, wire.headers)


def _max_tokens(said: Said) -> Any:
    bounds = [said.take("max_completion_tokens"), said.take("max_tokens")]
    return next((bound for bound in bounds if bound is not None), DEFAULT_MAX_TOKENS)


def _check_temperature(said: Said) -> None:
    temperature = said.left.get("temperature")
    if isinstance(temperature, (int, float)) and temperature > 1:
        raise said.wrong("temperature", f"{BACKEND} takes temperatures from 0 to 1")


def _tools(said: Said) -> dict[str, Any]:
    tools = [_tool(tool) for tool in said.each("tools")]
    parallel = said.flag("parallel_tool_calls")
    choice = _tool_choice(said)
    if parallel is False and tools and (choice is None or choice["type"] != "none"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {
        **({"tools": tools} if tools else {}),
        **({"tool_choice": choice} if choice is not None else {}),
    }


def _tool(tool: Said) -> dict[str, Any]:
    if tool.needed("type") != "function":
        raise tool.wrong("type", f"{BACKEND} knows tools of type function only")
    function = tool.inner("function")
    if function is None:
        raise tool.wrong("function", "must be an object, and is missing")
    made: dict[str, Any] = {"name": function.needed("name")}
    description = function.text("description")
    if description is not None:
        made["description"] = description
    made["input_schema"] = function.take("parameters") or {"type": "object", "properties": {}}
    if function.flag("strict"):
        made["strict"] = True
    function.end(BACKEND)
    tool.end(BACKEND)
    return made


def _tool_choice(said: Said) -> dict[str, Any] | None:
    if isinstance(said.left.get("tool_choice"), str):
        word = said.needed("tool_choice")
        if word not in _CHOICES:
            raise said.wrong("tool_choice", "must be auto, required, none or a function")
        return {"type": _CHOICES[word]}
    choice = said.inner("tool_choice")
    if choice is None:
        return None
    function = choice.inner("function")
    if choice.needed("type") != "function" or function is None:
        raise choice.wrong("type", f"{BACKEND} takes the choice of one function only")
    made = {"type": "tool", "name": function.needed("name")}
    function.end(BACKEND)
    choice.end(BACKEND)
    return made


def _reasoning(said: Said, fields: Mapping[str, Any]) -> dict[str, Any]:
    effort = said.text("reasoning_effort")
    if effort is None:
        return {}
    if effort == "none":
        return {} if "thinking" in fields else {"thinking": {"type": "disabled"}}
    if effort not in _EFFORTS:
        raise said.wrong("reasoning_effort", f"{BACKEND} knows none, low, medium, high, xhigh and max")
    return {"output_config": {"effort": effort}}


def _format(form: Said) -> dict[str, Any]:
    kind = form.needed("type")
    if kind == "text":
        form.end(BACKEND)
        return {}
    if kind != "json_schema":
        raise form.wrong("type", f"{BACKEND} takes text or json_schema, not {kind}")
    described = form.inner("json_schema")
    schema = described.take("schema") if described is not None else None
    if described is None or not isinstance(schema, dict):
        raise Untranslatable(form.at("json_schema.schema"), "must be an object, and is missing")
    description = described.text("description")
    if description is not None and "description" not in schema:
        schema = {"description": description, **schema}
    described.drop("name", "strict")
    described.end(BACKEND)
    form.end(BACKEND)
    return {"format": {"type": "json_schema", "schema": schema}}
