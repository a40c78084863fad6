"""Tools, their choice and the answer's format: from the responses dialect to chat completions.

The dialects say the same things at different depths. Tools that the provider itself runs (search, code, computers, MCP)
have no counterpart and are refused with their path.
"""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.responses_parts import objects, only, text_of

_ONLY_FUNCTIONS: Final = "must be function: the model's backend runs no tools itself"
_MODES: Final = ("none", "auto", "required")


def chat_tools(tools: Any) -> list[dict[str, Any]]:
    """The tools of a request. Raises `Untranslatable`."""
    return [_tool(tool, path) for path, tool in objects(tools, "tools")]


def chat_tool_choice(choice: Any) -> Any:
    """Which tools the model may or must call. Raises `Untranslatable`."""
    if isinstance(choice, str):
        if choice not in _MODES:
            raise Untranslatable("tool_choice", f"must be one of {', '.join(_MODES)}, or an object")
        return choice
    if not isinstance(choice, dict):
        raise Untranslatable("tool_choice", "must be a string or an object")
    if choice.get("type") == "allowed_tools":
        only(choice, "tool_choice", ("type", "mode", "tools"))
        tools = [_named(tool, path) for path, tool in objects(choice.get("tools"), "tool_choice.tools")]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode"), "tools": tools}}
    return _named(choice, "tool_choice")


def chat_response_format(text_format: Any) -> dict[str, Any] | None:
    """`text.format` as `response_format`; None for plain text, which is what chat completions give anyway."""
    path = "text.format"
    if not isinstance(text_format, dict):
        raise Untranslatable(path, "must be an object")
    kind = text_format.get("type")
    if kind in ("text", "json_object"):
        only(text_format, path, ("type",))
        return None if kind == "text" else {"type": "json_object"}
    if kind != "json_schema":
        raise Untranslatable(f"{path}.type", "must be text, json_schema or json_object")
    members = ("name", "schema", "strict", "description")
    only(text_format, path, ("type", *members))
    text_of(text_format, "name", path)
    schema = {name: text_format[name] for name in members if text_format.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}


def _tool(tool: Mapping[str, Any], path: str) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise Untranslatable(f"{path}.type", _ONLY_FUNCTIONS)
    plain = [name for name in ("defer_loading", "async") if tool.get(name) is False]
    if tool.get("allowed_callers") == ["direct"]:
        plain.append("allowed_callers")
    members = ("name", "description", "parameters", "strict")
    only(tool, path, ("type", *members, *plain))
    text_of(tool, "name", path)
    function = {name: tool[name] for name in members if tool.get(name) is not None}
    return {"type": "function", "function": function}


def _named(choice: Mapping[str, Any], path: str) -> dict[str, Any]:
    if choice.get("type") != "function":
        raise Untranslatable(f"{path}.type", _ONLY_FUNCTIONS)
    only(choice, path, ("type", "name"))
    return {"type": "function", "function": {"name": text_of(choice, "name", path)}}
