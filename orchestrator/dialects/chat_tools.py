"""Tool calls put together from fragments, for servers that number and name them carelessly.

The dialect's rule: fragments carry an `index`; the first of a call has its id and name, later ones add arguments.
What servers do, and what is made of it:

| seen                                                      | taken as                                            |
|-----------------------------------------------------------|-----------------------------------------------------|
| a new id at an occupied index (all parallel calls use 0)  | a new call                                          |
| the same id again                                         | more of that call                                   |
| no id, ever                                               | one synthesised id per call, from its first fragment |
| no index                                                  | the call of that id, else the last one              |
| no id, a name, and the call so far is complete            | a new call                                          |
| two calls with the same id                                | the second gets a synthesised id: ids answer calls  |
"""

import json
import secrets
from collections.abc import Callable

import msgspec

from agents.messages import ToolCall, ToolCallDelta
from orchestrator.dialects.chat_wire import FunctionWire, ToolCallWire
from orchestrator.dialects.text import scrub


def new_call_id() -> str:
    """An id in the dialect's form, unique across transcripts."""
    return f"call_{secrets.token_hex(12)}"


class _OpenCall:
    __slots__ = ("arguments", "id", "index", "name", "place", "wire_id")

    def __init__(self, place: int, index: int | None, wire_id: str) -> None:
        self.place = place
        self.index = index
        self.wire_id = wire_id
        self.id = wire_id
        self.name = ""
        self.arguments: list[str] = []

    def complete(self) -> bool:
        return is_json_object("".join(self.arguments))


class ToolCallAssembler:
    """Collects the fragments of one reply. `new_id` makes an id that no other call in any transcript has."""

    __slots__ = ("_at_index", "_calls", "_new_id", "_place")

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._place: int | None = None
        self._calls: list[_OpenCall] = []
        self._at_index: dict[int, _OpenCall] = {}

    def add(self, wire: ToolCallWire) -> ToolCallDelta | None:
        """What this fragment adds, under the place its call has in the reply; None if it adds nothing."""
        function = wire.function or FunctionWire()
        wire_id = scrub(wire.id or "")
        name = scrub(function.name or "")
        arguments = scrub(function.arguments or "")
        call = self._find(wire.index, wire_id, name, arguments)
        self._place = call.place if call is not None else None
        if not (wire_id or name or arguments):
            return None
        if call is None:
            call = self._open(wire.index, wire_id)
            self._place = call.place
            call.name = name
            call.arguments.append(arguments)
            return ToolCallDelta(call.place, call.id, name, arguments)
        if name and not call.name:
            call.name = name
        else:
            name = ""
        if not (name or arguments):
            return None
        call.arguments.append(arguments)
        return ToolCallDelta(call.place, "", name, arguments)

    def place(self, wire: ToolCallWire) -> int | None:
        """Adds the fragment; the place of the call that it belongs to, None where it opens none and there is none."""
        self.add(wire)
        return self._place

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls as they stand. Empty arguments become `{}`, everything else stays as the model wrote it."""
        return tuple(ToolCall(call.id, call.name, _or_empty_object("".join(call.arguments))) for call in self._calls)

    def __bool__(self) -> bool:
        return bool(self._calls)

    def _find(self, index: int | None, wire_id: str, name: str, arguments: str) -> _OpenCall | None:
        """The call that a fragment continues, or None if it opens one."""
        if wire_id:
            for call in reversed(self._calls):
                if call.wire_id == wire_id and index in (None, call.index):
                    return call
        call_or_none = self._calls[-1] if index is None and self._calls else self._at_index.get(index or 0)
        if call_or_none is None:
            return None
        call = call_or_none
        if wire_id:
            if call.wire_id or name:
                return None
            # An id that comes late, without a name, belongs to the call that was opened without one.
            call.wire_id = wire_id
            return call
        if name and (arguments or name != call.name) and call.complete():
            return None
        return call

    def _open(self, index: int | None, wire_id: str) -> _OpenCall:
        call = _OpenCall(len(self._calls), index, wire_id)
        if not wire_id or any(other.id == wire_id for other in self._calls):
            call.id = self._new_id()
        self._calls.append(call)
        if index is not None:
            self._at_index[index] = call
        return call


def _or_empty_object(arguments: str) -> str:
    return arguments if arguments and not arguments.isspace() else "{}"


def is_json_object(text: str) -> bool:
    """Whether tool arguments are a JSON object, as strictly as a tool's own parser would be."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except RecursionError:
        return False
    except msgspec.DecodeError:
        # msgspec refuses lone surrogates in escapes, which JSON itself allows.
        if "\\u" not in text:
            return False
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
