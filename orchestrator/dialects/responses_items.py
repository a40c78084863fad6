"""The input of the responses dialect as messages of chat completions.

| item                                | becomes                                                                    |
|-------------------------------------|----------------------------------------------------------------------------|
| a string                            | a message of the user                                                      |
| `message`                           | a message; `developer` is `system`, the name that every server knows       |
| `function_call`                     | a tool call, in one message with the text and the calls right before it    |
| `function_call_output`              | a message of role `tool`; text only                                        |
| `reasoning`                         | nothing: what a model thought is its own, and no part of what it said      |
| `item_reference`, any other         | refused: nothing is stored here, and other items belong to hosted tools    |
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.responses_parts import assistant_content, chat_content, objects, only, plain_text, text_of

_ROLES: Final = {"user": "user", "system": "system", "developer": "system", "assistant": "assistant"}
_ITEM: Final = ("type", "id", "status")


class Messages:
    """Messages in the making. `sources` maps paths in them to the paths in the program's body that they come from."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.sources: dict[str, str] = {}

    def add(self, message: dict[str, Any], source: str, **members: str) -> None:
        """`members` are those of the message that come from elsewhere than the same name in `source`."""
        place = f"messages[{len(self.messages)}]"
        self.messages.append(message)
        self.sources[place] = source
        self.sources.update((f"{place}.{name}", path) for name, path in members.items())

    def call(self, call: dict[str, Any], source: str) -> None:
        """Adds a tool call to the model's message that stands last, or in one of its own."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.add({"role": "assistant", "content": ""}, source)
        calls = self.messages[-1].setdefault("tool_calls", [])
        place = f"messages[{len(self.messages) - 1}].tool_calls[{len(calls)}]"
        calls.append(call)
        self.sources.update({place: source, f"{place}.function": source, f"{place}.id": f"{source}.call_id"})


def chat_messages(instructions: Any, given: Any) -> Messages:
    """The messages of a request. `instructions` come first, as the system's. Raises `Untranslatable`."""
    messages = Messages()
    if instructions is not None:
        if not isinstance(instructions, str):
            raise Untranslatable("instructions", "must be a string")
        messages.add({"role": "system", "content": instructions}, "instructions", content="instructions")
    if isinstance(given, str):
        messages.add({"role": "user", "content": given}, "input", content="input")
        return messages
    if given is None:
        raise Untranslatable("input", "is missing; it must be a string or a list of items")
    for path, item in objects(given, "input"):
        _item_of(item, path)(messages, item, path)
    return messages


def _item_of(item: Mapping[str, Any], path: str) -> "Callable[[Messages, Mapping[str, Any], str], None]":
    kind = item.get("type")
    if kind is None:
        kind = "message" if "role" in item else "item_reference"
    if kind == "item_reference":
        raise Untranslatable(path, "items are not stored here; send the item itself")
    known = _ITEMS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise Untranslatable(f"{path}.type", "the model's backend takes messages, function calls and their outputs")
    return known


def _message(messages: Messages, item: Mapping[str, Any], path: str) -> None:
    only(item, path, (*_ITEM, "role", "content", "phase"))
    role = _ROLES.get(text_of(item, "role", path))
    if role is None:
        raise Untranslatable(f"{path}.role", "must be user, assistant, system or developer")
    content = item.get("content")
    if role == "assistant":
        messages.add({"role": role, **assistant_content(content, f"{path}.content")}, path)
    else:
        messages.add({"role": role, "content": chat_content(content, f"{path}.content")}, path)


def _function_call(messages: Messages, item: Mapping[str, Any], path: str) -> None:
    only(item, path, (*_ITEM, "call_id", "name", "arguments", *_plain_call(item, path)))
    function = {"name": text_of(item, "name", path), "arguments": text_of(item, "arguments", path)}
    messages.call({"id": text_of(item, "call_id", path), "type": "function", "function": function}, path)


def _function_call_output(messages: Messages, item: Mapping[str, Any], path: str) -> None:
    only(item, path, (*_ITEM, "call_id", "name", "output", *_plain_call(item, path)))
    output = plain_text(item.get("output"), f"{path}.output")
    message = {"role": "tool", "tool_call_id": text_of(item, "call_id", path), "content": output}
    messages.add(message, path, content=f"{path}.output", tool_call_id=f"{path}.call_id")


def _plain_call(item: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Members that say nothing beyond what every call is: made by the model itself, and waited for."""
    caller = item.get("caller")
    plain = ["caller"] if isinstance(caller, dict) and caller.get("type") == "direct" else []
    return (*plain, "async") if item.get("async") is False else tuple(plain)


def _reasoning(messages: Messages, item: Mapping[str, Any], path: str) -> None:
    """See the table."""


_ITEMS: Final[Mapping[str, Callable[[Messages, Mapping[str, Any], str], None]]] = {
    "message": _message,
    "function_call": _function_call,
    "function_call_output": _function_call_output,
    "reasoning": _reasoning,
}
