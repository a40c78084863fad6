"""Puts the chunks of the chat dialect together into the chat completion that they describe."""

from collections.abc import Callable
from typing import Any

import msgspec

from agents.messages import WireEvent
from orchestrator.dialects.chat_tools import ToolCallAssembler, new_call_id
from orchestrator.dialects.chat_wire import FunctionWire, ToolCallWire, loads
from orchestrator.dialects.merging import Joined
from orchestrator.dialects.text import encoded

_decoder = msgspec.json.Decoder()


class ChatAssembler:
    """A `base.Assembler`. Padding (`obfuscation`) is left out: it hides the sizes of chunks, and there are none now."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._members: dict[str, Any] = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
        self._choices: dict[int, _Choice] = {}

    def feed(self, event: WireEvent) -> None:
        chunk = _object(event.data)
        for name, value in chunk.items():
            if name == "choices":
                for choice in value if isinstance(value, list) else ():
                    self._choice(choice)
            elif name not in ("object", "obfuscation") and (value is not None or name not in self._members):
                self._members[name] = value

    def document(self) -> bytes:
        members = {name: value for name, value in self._members.items() if name != "usage"}
        members["choices"] = [self._choices[index].whole() for index in sorted(self._choices)]
        if self._members.get("usage") is not None:
            members["usage"] = self._members["usage"]
        return encoded(members)

    def _choice(self, wire: Any) -> None:
        if not isinstance(wire, dict):
            return
        index = wire.get("index")
        if type(index) is not int:
            index = 0
        if index not in self._choices:
            self._choices[index] = _Choice(index, self._new_id)
        self._choices[index].add(wire)


class _Choice:
    """One choice as it grows."""

    def __init__(self, index: int, new_id: Callable[[], str]) -> None:
        self._members: dict[str, Any] = {"index": index, "finish_reason": None, "logprobs": None}
        self._message = Joined({"role": "assistant", "content": None, "refusal": None})
        self._logprobs = Joined({})
        self._places = ToolCallAssembler(new_id)
        self._calls: dict[int, Joined] = {}

    def add(self, wire: dict[str, Any]) -> None:
        for name, value in wire.items():
            if name in ("delta", "message"):
                self._delta(value)
            elif name == "logprobs" and isinstance(value, dict):
                self._logprobs.add(value)
            elif value is not None or name not in self._members:
                self._members[name] = value

    def whole(self) -> dict[str, Any]:
        message = self._message.value()
        if self._calls:
            message["tool_calls"] = self._tool_calls()
        logprobs = self._logprobs.value() or None
        return {**self._members, "logprobs": logprobs, "message": message}

    def _delta(self, delta: Any) -> None:
        if not isinstance(delta, dict):
            return
        calls = delta.get("tool_calls")
        if calls is not None:
            delta = {name: value for name, value in delta.items() if name != "tool_calls"}
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    self._call(call)
        self._message.add(delta)

    def _call(self, wire: dict[str, Any]) -> None:
        place = self._places.place(_call_wire(wire))
        if place is not None:
            call = self._calls.setdefault(place, Joined({"id": None, "type": "function"}))
            call.add({name: value for name, value in wire.items() if name != "index"})

    def _tool_calls(self) -> list[dict[str, Any]]:
        """The calls, with the ids and arguments of those who are careless with them put right."""
        whole = []
        for place, call in enumerate(self._places.calls()):
            members = self._calls[place].value()
            members["id"] = call.id
            if isinstance(members.get("function"), dict):
                members["function"].update(name=call.name, arguments=call.arguments)
            whole.append(members)
        return whole


def _object(data: bytes) -> dict[str, Any]:
    """A chunk's members; none for the end marker and for what is no object."""
    if data == b"[DONE]":
        return {}
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(data)
    return value if isinstance(value, dict) else {}


def _call_wire(wire: dict[str, Any]) -> ToolCallWire:
    kind = "custom" if isinstance(wire.get("custom"), dict) else "function"
    said = wire.get(kind)
    function = None
    if isinstance(said, dict):
        arguments = said.get("input" if kind == "custom" else "arguments")
        function = FunctionWire(_text(said.get("name")), _text(arguments))
    index = wire.get("index")
    return ToolCallWire(index if isinstance(index, int) else None, _text(wire.get("id")), function)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
