"""The items that a response consists of: opened, filled and closed, each with the events that say so.

Source: OpenAI's API reference, "Responses", "Streaming events".
"""

from collections.abc import Callable
from typing import Any, Protocol

Entries = list[dict[str, Any]]
"""Events but for their sequence numbers."""


class Item(Protocol):
    """One item of the output. `key` tells it from the others of one answer."""

    key: str | int

    def opened(self) -> Entries: ...

    def filled(self, text: str) -> Entries: ...

    def closed(self, status: str) -> Entries: ...

    def whole(self, status: str) -> dict[str, Any]:
        """The item as it stands in the response."""
        ...


class _Base:
    def __init__(self, key: str | int, item_id: str, index: int) -> None:
        self.key = key
        self._texts: list[str] = []
        self._place = {"item_id": item_id, "output_index": index}
        self._id = item_id
        self._index = index

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _added(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"type": "response.output_item.added", "output_index": self._index, "item": item}

    def _done(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"type": "response.output_item.done", "output_index": self._index, "item": item}


class TextItem(_Base):
    """A message with one part of text. `logprobs` says what to report of a text."""

    def __init__(self, item_id: str, index: int, logprobs: Callable[[str], Entries]) -> None:
        super().__init__("text", item_id, index)
        self._logprobs = logprobs
        self._place = {**self._place, "content_index": 0}

    def opened(self) -> Entries:
        item = {"id": self._id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return [self._added(item), {"type": "response.content_part.added", **self._place, "part": part}]

    def filled(self, text: str) -> Entries:
        self._texts.append(text)
        logprobs = self._logprobs(text)
        return [{"type": "response.output_text.delta", **self._place, "delta": text, "logprobs": logprobs}]

    def closed(self, status: str) -> Entries:
        item = self.whole(status)
        part = item["content"][0]
        return [
            {"type": "response.output_text.done", **self._place, "text": part["text"], "logprobs": part["logprobs"]},
            {"type": "response.content_part.done", **self._place, "part": part},
            self._done(item),
        ]

    def whole(self, status: str) -> dict[str, Any]:
        text = self._text
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logprobs(text)}
        return {"id": self._id, "type": "message", "role": "assistant", "status": status, "content": [part]}


class CallItem(_Base):
    """A function call; its number in the answer is its key."""

    def __init__(self, key: int, item_id: str, index: int, call_id: str, name: str) -> None:
        super().__init__(key, item_id, index)
        self._call_id = call_id
        self._name = name

    def opened(self) -> Entries:
        return [self._added(self.whole("in_progress"))]

    def filled(self, text: str) -> Entries:
        self._texts.append(text)
        return [{"type": "response.function_call_arguments.delta", **self._place, "delta": text}]

    def closed(self, status: str) -> Entries:
        done = {"type": "response.function_call_arguments.done", **self._place, "name": self._name}
        return [{**done, "arguments": self._text}, self._done(self.whole(status))]

    def whole(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "function_call",
            "call_id": self._call_id,
            "name": self._name,
            "arguments": self._text,
            "status": status,
        }


class ReasoningItem(_Base):
    """A thought, told as a summary of one part."""

    def __init__(self, item_id: str, index: int) -> None:
        super().__init__("reasoning", item_id, index)
        self._place = {**self._place, "summary_index": 0}

    def opened(self) -> Entries:
        item = {"id": self._id, "type": "reasoning", "summary": []}
        part = {"type": "summary_text", "text": ""}
        return [self._added(item), {"type": "response.reasoning_summary_part.added", **self._place, "part": part}]

    def filled(self, text: str) -> Entries:
        self._texts.append(text)
        return [{"type": "response.reasoning_summary_text.delta", **self._place, "delta": text}]

    def closed(self, status: str) -> Entries:
        item = self.whole(status)
        part = item["summary"][0]
        return [
            {"type": "response.reasoning_summary_text.done", **self._place, "text": part["text"]},
            {"type": "response.reasoning_summary_part.done", **self._place, "part": part},
            self._done(item),
        ]

    def whole(self, status: str) -> dict[str, Any]:
        return {"id": self._id, "type": "reasoning", "summary": [{"type": "summary_text", "text": self._text}]}
