"""OpenAI's responses from the provider's side: answers put into words.

Source: OpenAI's API reference, "Responses" and "Streaming events". Every event has its number in the stream, and the
last one the whole response; there is no `[DONE]`. A document is made by the same steps as a stream, so that both say
the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agents.messages import Delta, ToolCallDelta, Usage, WireEvent
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.dialect import COMMENT, Events, echo
from orchestrator.backends.simulated.errors import SimError
from orchestrator.backends.simulated.logprobs import logprobs
from orchestrator.backends.simulated.responses_items import CallItem, Entries, Item, ReasoningItem, TextItem
from orchestrator.backends.simulated.wire import error_members

_DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


class ResponsesWriter:
    """Words one answer. `members` are those of the request that come back in the response. See `Writer`."""

    heartbeat = COMMENT

    def __init__(
        self,
        number: int,
        model: str,
        members: Mapping[str, Any],
        pieces: Callable[[str], list[str]],
        top_logprobs: int | None,
        x_sim: Any,
    ) -> None:
        self._number = number
        self._common = {
            "id": f"resp_sim{number:08d}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            **_DEFAULTS,
            **members,
            "previous_response_id": None,
            "store": False,
            **echo(x_sim),
        }
        self._pieces = pieces
        self._top = top_logprobs
        self._sequence = 0
        self._items: list[Item] = []
        self._closed: list[dict[str, Any]] = []

    def begin(self, usage: Usage) -> Events:
        response = self._response("in_progress")
        return self._numbered(
            [{"type": "response.created", "response": response}, {"type": "response.in_progress", "response": response}]
        )

    def deltas(self, deltas: Sequence[Delta]) -> Events:
        return self._numbered([entry for delta in deltas for entry in self._filled(delta)])

    def _filled(self, delta: Delta) -> Entries:
        entries: Entries = []
        if delta.reasoning:
            entries += self._fill("reasoning", delta.reasoning)
        if delta.text:
            entries += self._fill("text", delta.text)
        for call in delta.tool_calls:
            entries += self._fill(call.index, call.arguments, call)
        return entries

    def _fill(self, key: str | int, text: str, call: ToolCallDelta | None = None) -> Entries:
        """Adds to the item of that key, which is opened first if another one is open."""
        entries: Entries = []
        if not self._items or self._items[-1].key != key:
            entries += self._close("completed")
            self._items.append(self._item(key, call))
            entries += self._items[-1].opened()
        return entries + self._items[-1].filled(text)

    def _item(self, key: str | int, call: ToolCallDelta | None) -> Item:
        index = len(self._items)
        suffix = f"sim{self._number:08d}_{index}"
        if isinstance(key, int):
            assert call is not None
            return CallItem(key, f"fc_{suffix}", index, call.id, call.name)
        return (
            ReasoningItem(f"rs_{suffix}", index) if key == "reasoning" else TextItem(f"msg_{suffix}", index, self._said)
        )

    def _said(self, text: str) -> Entries:
        return [] if self._top is None or not text else logprobs(self._pieces(text), self._top)

    def _close(self, status: str) -> Entries:
        if len(self._closed) == len(self._items):
            return []
        item = self._items[-1]
        self._closed.append(item.whole(status))
        return item.closed(status)

    def end(self, answer: Answer) -> Events:
        entries, response = self._finished(answer)
        last = {"type": f"response.{response['status']}", "response": response}
        return self._numbered([*entries, *[last] * max(1, answer.usage_reports)])

    def broken(self, error: SimError) -> Events:
        """The error twice in one event: flat, as the reference has it, and as a member, where OpenAI's SDK raises."""
        members = error_members(error)
        flat = {name: members[name] for name in ("code", "message", "param")}
        return self._numbered([{"type": "error", **flat, "error": members}])

    def document(self, answer: Answer) -> bytes:
        message = answer.reply.message
        calls = tuple([ToolCallDelta(i, c.id, c.name, c.arguments) for i, c in enumerate(message.tool_calls)])
        self._filled(Delta(message.content, message.reasoning, calls))
        return msgspec.json.encode(self._finished(answer)[1])

    def _finished(self, answer: Answer) -> tuple[Entries, dict[str, Any]]:
        """What closes the last item, and the whole response."""
        cut = answer.reply.finish_reason == "length"
        entries = self._close("incomplete" if cut else "completed")
        response = self._response("incomplete" if cut else "completed")
        if cut:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        else:
            response["completed_at"] = int(time.time())
        if answer.usage_reports:
            response["usage"] = _usage(answer)
        return entries, response

    def _response(self, status: str) -> dict[str, Any]:
        empty = {"error": None, "incomplete_details": None, "usage": None}
        return {**self._common, "status": status, "output": list(self._closed), **empty}

    def _numbered(self, entries: Entries) -> Events:
        events = []
        for entry in entries:
            body = {**entry, "sequence_number": self._sequence}
            events.append(WireEvent(entry["type"], msgspec.json.encode(body)))
            self._sequence += 1
        return events


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.reply.usage
    given, output = usage.all_input or 0, usage.output or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": answer.thinking},
        "total_tokens": given + output,
    }
