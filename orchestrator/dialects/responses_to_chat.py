"""A request of the responses dialect as one of chat completions.

| member                                                        | what becomes of it                                 |
|---------------------------------------------------------------|----------------------------------------------------|
| `instructions`, `input`                                       | `messages`, see `responses_items`                  |
| `tools`, `tool_choice`, `text.format`                         | the same one level deeper, see `responses_tools`   |
| `max_output_tokens`, `reasoning.effort`, `text.verbosity`     | `max_tokens`, `reasoning_effort`, `verbosity`      |
| `include`: `message.output_text.logprobs`, `top_logprobs`     | `logprobs`, `top_logprobs`                         |
| `include`: `reasoning.encrypted_content`                      | nothing: no reasoning comes encrypted              |
| `reasoning.summary`: `auto`                                   | nothing: what reasoning there is comes whole       |
| `store`                                                       | nothing: it asks for a copy, and there is none     |
| `metadata`                                                    | nothing sent: the response repeats it              |
| `max_tool_calls`                                              | nothing: it bounds hosted tools, and there is none |
| `truncation`: `disabled`                                      | nothing: nothing is ever truncated                 |
| `previous_response_id`, `conversation`, `background`          | refused, see `stored`                              |
| `prompt`, `context_management`, ... (`_NO_COUNTERPART`)       | refused                                            |
| names with a meaning of their own in chat (`_OF_CHAT`)        | refused, with the name that was meant              |
| everything else, known or not                                 | as it is: the dialects share the name              |

A member that is null says nothing, and is left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.responses_items import chat_messages
from orchestrator.dialects.responses_parts import only
from orchestrator.dialects.responses_tools import chat_response_format, chat_tool_choice, chat_tools
from orchestrator.dialects.stored import refuse_stored

LOGPROBS: Final = "message.output_text.logprobs"

_NULL: Final = b"null"
_LEFT_OUT: Final = frozenset({"instructions", "input", "store", "metadata", "max_tool_calls", "background"})
_NO_COUNTERPART: Final = frozenset(
    {"prompt", "context_management", "access_programs", "background_options", "image", "prompt_cache_diagnostics"}
)
_OF_CHAT: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    "functions": "tools",
    "function_call": "tool_choice",
    "logprobs": "include",
    "n": "one request for each answer",
    "audio": "text",
    "modalities": "text",
}
_SOURCES: Final = {
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "response_format.json_schema": "text.format",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    "logprobs": "include",
    "messages": "input",
    "tool_choice.function": "tool_choice",
    "tool_choice.allowed_tools": "tool_choice",
}
_TOOL: Final = re.compile(r"^(tools\[\d+\])\.function")
_BOUNDARY: Final = re.compile(r"[.\[]|$")
"""Where a path may be cut."""


class ChatRequest(Struct, frozen=True):
    """The request in chat completions. `sources` maps paths in its messages to those in the program's body."""

    wire: WireRequest
    sources: Mapping[str, str]

    def in_the_programs_words(self, error: Untranslatable) -> Untranslatable:
        """The error about this request, with the path that the member had in the program's own body."""
        why = str(error).removeprefix(f"{error.field}: ")
        return Untranslatable(_source(error.field, self.sources), why)


def translate(wire: WireRequest) -> WireRequest:
    """The request alone; see `chat_request`."""
    return chat_request(wire).wire


def chat_request(wire: WireRequest) -> ChatRequest:
    """Translates a request. Raises `Untranslatable`, or `stored.Stored`, which name the member."""
    refuse_stored(wire.fields)
    given = {name: raw for name, raw in wire.fields.items() if bytes(raw) != _NULL}
    messages = chat_messages(_value(given, "instructions"), _value(given, "input"))
    fields: dict[str, Raw] = {}
    for name, raw in given.items():
        if name in _LEFT_OUT:
            continue
        if name in _NO_COUNTERPART:
            raise Untranslatable(name, "the model's backend has no counterpart for it; leave it out")
        if name in _OF_CHAT:
            raise Untranslatable(name, f"is not of this dialect; use {_OF_CHAT[name]}")
        translate = _MEMBERS.get(name)
        if translate is None:
            fields[name] = raw
        else:
            fields.update((key, _raw(value)) for key, value in translate(msgspec.json.decode(raw)).items())
    fields["messages"] = _raw(messages.messages)
    return ChatRequest(WireRequest("chat", fields, wire.input_bytes, wire.headers), messages.sources)


def _tools(value: Any) -> dict[str, Any]:
    tools = chat_tools(value)
    return {"tools": tools} if tools else {}


def _tool_choice(value: Any) -> dict[str, Any]:
    return {"tool_choice": chat_tool_choice(value)}


def _text(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Untranslatable("text", "must be an object")
    only(value, "text", ("format", "verbosity"))
    fields: dict[str, Any] = {}
    if value.get("format") is not None:
        response_format = chat_response_format(value["format"])
        if response_format is not None:
            fields["response_format"] = response_format
    if value.get("verbosity") is not None:
        fields["verbosity"] = value["verbosity"]
    return fields


def _reasoning(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Untranslatable("reasoning", "must be an object")
    harmless = [name for name in ("summary", "generate_summary") if value.get(name) == "auto"]
    only(value, "reasoning", ("effort", *harmless))
    return {"reasoning_effort": value["effort"]} if value.get("effort") is not None else {}


def _include(value: Any) -> dict[str, Any]:
    if not isinstance(value, list):
        raise Untranslatable("include", "must be a list of strings")
    for index, item in enumerate(value):
        if item not in (LOGPROBS, "reasoning.encrypted_content"):
            raise Untranslatable(f"include[{index}]", "the model's backend has nothing of that kind to include")
    return {"logprobs": True} if LOGPROBS in value else {}


def _top_logprobs(value: Any) -> dict[str, Any]:
    return {"top_logprobs": value, "logprobs": True} if value != 0 else {}


def _truncation(value: Any) -> dict[str, Any]:
    if value != "disabled":
        raise Untranslatable("truncation", "must be disabled: the model's backend takes an input whole or not at all")
    return {}


def _max_output_tokens(value: Any) -> dict[str, Any]:
    return {"max_tokens": value}


_MEMBERS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "tools": _tools,
    "tool_choice": _tool_choice,
    "text": _text,
    "reasoning": _reasoning,
    "include": _include,
    "top_logprobs": _top_logprobs,
    "truncation": _truncation,
    "max_output_tokens": _max_output_tokens,
}


def _source(field: str, sources: Mapping[str, str]) -> str:
    """The longest path that is known and contains the field, in the program's words, with what is left of it."""
    known = _TOOL.sub(r"\1", field)
    if known != field:
        return known
    for end in sorted((match.start() for match in _BOUNDARY.finditer(field)), reverse=True):
        source = sources.get(field[:end]) or _SOURCES.get(field[:end])
        if source is not None:
            return source + field[end:]
    return field


def _value(fields: Mapping[str, Raw], name: str) -> Any:
    raw = fields.get(name)
    return None if raw is None else msgspec.json.decode(raw)


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
