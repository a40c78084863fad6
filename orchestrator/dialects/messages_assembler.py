"""Puts the events of Anthropic's messages dialect together into the message that they describe.

Source: the Claude API reference, "Streaming messages": `message_start` has the message without content, each block
comes whole in its `content_block_start` and grows by its deltas, `message_delta` has the members of the message that
are known last, and its usage is cumulative: members that it leaves out stay as they were.
"""

from typing import Any

import msgspec
from msgspec import Raw

from agents.messages import WireEvent
from orchestrator.dialects.chat_tools import is_json_object
from orchestrator.dialects.chat_wire import loads
from orchestrator.dialects.merging import Joined
from orchestrator.dialects.text import encoded

_decoder = msgspec.json.Decoder()


class MessagesAssembler:
    """A `base.Assembler`. Blocks and deltas that it does not know are kept, merged as `merging` says."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    def feed(self, event: WireEvent) -> None:
        wire = _object(event.data)
        kind, index = wire.get("type"), wire.get("index")
        if kind == "content_block_delta":
            block = self._blocks.get(index if type(index) is int else len(self._blocks) - 1)
            if block is not None:
                block.add(_dict(wire.get("delta")))
        elif kind == "content_block_start":
            place = index if type(index) is int else len(self._blocks)
            self._blocks[place] = _Block(_dict(wire.get("content_block")))
        elif kind == "message_start":
            self._message = _dict(wire.get("message"))
            self._usage = _dict(self._message.get("usage"))
        elif kind == "message_delta":
            self._last(wire)

    def document(self) -> bytes:
        blocks = [self._blocks[index].value() for index in sorted(self._blocks)]
        content = blocks or self._message.get("content") or []
        return encoded({**self._message, "content": content, "usage": self._usage})

    def _last(self, wire: dict[str, Any]) -> None:
        others = {name: value for name, value in wire.items() if name not in ("type", "delta", "usage")}
        for members in (_dict(wire.get("delta")), others):
            for name, value in members.items():
                if value is not None or name not in self._message:
                    self._message[name] = value
        self._usage.update((name, value) for name, value in _dict(wire.get("usage")).items() if value is not None)


class _Block:
    """One content block as it grows."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._start = members
        self._grown = Joined({})
        self._grown.add({name: value for name, value in members.items() if name != "input"})
        self._input: list[str] = []

    def add(self, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            self._input.append(piece if isinstance(piece, str) else "")
        elif kind == "citations_delta":
            self._grown.add({"citations": [delta.get("citation")]})
        else:
            self._grown.add({name: value for name, value in delta.items() if name != "type"})

    def value(self) -> dict[str, Any]:
        grown = self._grown.value()
        members = {name: grown.get(name) for name in self._start}
        if "input" in self._start or self._input:
            members["input"] = self._whole_input()
        return {**members, **{name: value for name, value in grown.items() if name not in members}}

    def _whole_input(self) -> Any:
        text = "".join(self._input)
        if not text.strip():
            return self._start.get("input") or {}
        return tool_input(text)


def tool_input(arguments: str) -> Any:
    """A tool's arguments as an input, which has to be an object.

    What the model wrote wrongly is wrapped as the API's guide "Fine-grained tool streaming" has it.
    """
    if is_json_object(arguments):
        return Raw(arguments.encode("utf-8", "replace"))
    return {} if not arguments.strip() else {"INVALID_JSON": arguments}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        value = loads(data)
    return _dict(value)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
