"""The items of a translated answer while they are being said: each knows which events open it, go on and close it.

| item          | its events, in order                                                                   |
|---------------|----------------------------------------------------------------------------------------|
| message       | `output_item.added`, then its parts, then `output_item.done`                           |
| a part of one | `content_part.added`, `output_text.delta` ..., `output_text.done`, `content_part.done` |
| reasoning     | as a message, with `reasoning_text`                                                    |
| function call | `output_item.added`, `function_call_arguments.delta` ..., `.done`, `output_item.done`  |

Source: the OpenAI API reference, "Responses", streaming events.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

Say = Iterator[tuple[str, dict[str, Any]]]
"""Events as their type (after `response.`) and members; who sends them numbers them."""

PartKind = Literal["output_text", "refusal", "reasoning_text"]

_TEXT_MEMBER: Final = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}


class TextItem:
    """A message, or reasoning. `index` is its place in the output."""

    def __init__(self, index: int, item_id: str, *, reasoning: bool = False) -> None:
        self.index = index
        self.id = item_id
        self.reasoning = reasoning
        self._parts: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def open(self) -> Say:
        yield "output_item.added", {"output_index": self.index, "item": self._described("in_progress", [])}

    def add(self, kind: PartKind, text: str, logprobs: list[dict[str, Any]]) -> Say:
        """More text, in the part that stands last or a new one of that kind."""
        if not self._parts or self._parts[-1]["type"] != kind:
            yield from self._close_part()
            self._parts.append(_part(kind))
            self._texts, self._logprobs = [], []
            yield "content_part.added", {**self._place(), "part": _part(kind)}
        self._texts.append(text)
        said = {**self._place(), "delta": text}
        if kind == "output_text":
            self._logprobs += logprobs
            said["logprobs"] = [_brief(item) for item in logprobs]
        yield f"{kind}.delta", said

    def close(self, status: str) -> Say:
        """Ends it, `completed` or `incomplete`."""
        yield from self._close_part()
        yield "output_item.done", {"output_index": self.index, "item": self.whole(status)}

    def whole(self, status: str) -> dict[str, Any]:
        """The item as the document has it."""
        return self._described(status, self._parts)

    def _close_part(self) -> Say:
        if not self._parts:
            return
        part = self._parts[-1]
        kind, member = part["type"], _TEXT_MEMBER[part["type"]]
        part[member] = "".join(self._texts)
        said: dict[str, Any] = {**self._place(), member: part[member]}
        if kind == "output_text":
            part["logprobs"] = self._logprobs
            said["logprobs"] = [_brief(item) for item in self._logprobs]
        yield f"{kind}.done", said
        yield "content_part.done", {**self._place(), "part": dict(part)}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, "content_index": len(self._parts) - 1}

    def _described(self, status: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        if self.reasoning:
            return {"id": self.id, "type": "reasoning", "summary": [], "content": list(parts), "status": status}
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": list(parts)}


class CallItem:
    """A function call. It is announced with its name, so what comes before the name is held back."""

    def __init__(self, index: int, item_id: str, call_id: str) -> None:
        self.index = index
        self.id = item_id
        self._call_id = call_id
        self._name = ""
        self._arguments: list[str] = []
        self._announced = False

    def add(self, name: str, arguments: str) -> Say:
        """More of the call."""
        self._name = self._name or name
        self._arguments.append(arguments)
        if self._announced:
            if arguments:
                yield self._delta(arguments)
        elif self._name:
            yield from self._announce()

    def close(self, status: str) -> Say:
        """Ends it. A call without arguments has none to give, which is an empty object."""
        if not self._announced:
            yield from self._announce()
        if not "".join(self._arguments).strip():
            self._arguments = ["{}"]
            yield self._delta("{}")
        arguments = "".join(self._arguments)
        yield "function_call_arguments.done", {**self._place(), "arguments": arguments}
        yield "output_item.done", {"output_index": self.index, "item": self.whole(status)}

    def whole(self, status: str) -> dict[str, Any]:
        """The item as the document has it."""
        return self._described(status, "".join(self._arguments))

    def _announce(self) -> Say:
        self._announced = True
        yield "output_item.added", {"output_index": self.index, "item": self._described("in_progress", "")}
        arguments = "".join(self._arguments)
        if arguments:
            yield self._delta(arguments)

    def _delta(self, arguments: str) -> tuple[str, dict[str, Any]]:
        return "function_call_arguments.delta", {**self._place(), "delta": arguments}

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index}

    def _described(self, status: str, arguments: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": arguments,
        }


def _part(kind: PartKind) -> dict[str, Any]:
    if kind == "output_text":
        return {"type": kind, "text": "", "annotations": [], "logprobs": []}
    return {"type": kind, _TEXT_MEMBER[kind]: ""}


def _brief(logprob: dict[str, Any]) -> dict[str, Any]:
    """A token's probability as events have it: without its bytes."""
    top = [{"token": item["token"], "logprob": item["logprob"]} for item in logprob["top_logprobs"]]
    return {"token": logprob["token"], "logprob": logprob["logprob"], "top_logprobs": top}
