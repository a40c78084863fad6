"""Tool calls of a chat stream, put right for programs that go by the dialect's rule where the server does not.

The rule: a call's fragments carry its `index`, and the first of them its id. Programs put fragments together by index,
so three calls at index 0 would become one. What is changed, and nothing else of the event:

| seen                              | becomes                                             |
|-----------------------------------|-----------------------------------------------------|
| a new id at an occupied index     | the next free index, also for what follows of it     |
| no index                          | that of the call with this id, else of the last call |
| a call that opens without an id   | it gets one, unlike any other                        |

A server that keeps to the rule has its events passed on as they are.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from agents.messages import WireEvent
from orchestrator.dialects.base import Translator
from orchestrator.dialects.chat_tools import new_call_id

_MARK: Final = b'"tool_calls"'


class _Call(Struct):
    index: int | None = None
    id: str | None = None


class _Delta(Struct):
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None


_Members = dict[str, Raw]
_chunks: Final = msgspec.json.Decoder(_Chunk)
_members: Final = msgspec.json.Decoder(_Members)
_rows: Final = msgspec.json.Decoder(list[_Members])
_encode: Final = msgspec.json.Encoder().encode


class _Opened(Struct):
    """A call, by the server's numbers and by ours."""

    wire_index: int | None
    wire_id: str
    index: int


class _Choices(Struct):
    """The calls of one choice, in the order in which they opened."""

    calls: list[_Opened] = []

    def place(self, call: _Call) -> tuple[int, str | None]:
        """Where a fragment belongs, and the id that it needs and lacks."""
        known = self._known(call)
        if known is not None:
            return known.index, None
        taken = {opened.index for opened in self.calls}
        index = call.index if call.index is not None and call.index not in taken else max(taken, default=-1) + 1
        self.calls.append(_Opened(call.index, call.id or "", index))
        return index, None if call.id else new_call_id()

    def _known(self, call: _Call) -> _Opened | None:
        for opened in reversed(self.calls):
            if call.id and opened.wire_id == call.id and call.index in (None, opened.wire_index):
                return opened
            if not call.id and call.index in (None, opened.wire_index):
                return opened
        return None


class CallsPutRight:
    """A translator that puts calls right and then leaves the event to the next one."""

    def __init__(self, then: Translator) -> None:
        self._then = then
        self._choices: dict[int, _Choices] = {}

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        if _MARK in event.data:
            event = self._put_right(event)
        return self._then.feed(event)

    def end(self) -> Sequence[WireEvent]:
        return self._then.end()

    def _put_right(self, event: WireEvent) -> WireEvent:
        try:
            chunk = _chunks.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # What only a lenient reader takes is left to the program.
            return event
        changes: dict[tuple[int, int], dict[str, Any]] = {}
        for at, choice in enumerate(chunk.choices or ()):
            calls = (choice.delta.tool_calls if choice.delta is not None else None) or ()
            known = self._choices.setdefault(choice.index or 0, _Choices()) if calls else None
            for place, call in enumerate(calls):
                assert known is not None
                index, new_id = known.place(call)
                change: dict[str, Any] = {"index": index} if index != call.index else {}
                if new_id is not None:
                    change["id"] = new_id
                if change:
                    changes[at, place] = change
        return WireEvent(event.event, _changed(event.data, changes)) if changes else event


def _changed(data: bytes, changes: dict[tuple[int, int], dict[str, Any]]) -> bytes:
    members: dict[str, Any] = dict(_members.decode(data))
    choices: list[dict[str, Any]] = [dict(choice) for choice in _rows.decode(members["choices"])]
    for at in {at for at, _ in changes}:
        delta: dict[str, Any] = dict(_members.decode(choices[at]["delta"]))
        calls = _rows.decode(delta["tool_calls"])
        delta["tool_calls"] = [{**call, **changes.get((at, place), {})} for place, call in enumerate(calls)]
        choices[at]["delta"] = delta
    return _encode({**members, "choices": choices})
