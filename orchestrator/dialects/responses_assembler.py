"""Puts the events of the responses dialect together into the one document that they describe."""

import msgspec
from msgspec import Raw

from agents.messages import WireEvent
from orchestrator.dialects.responses_wire import TERMINAL, decode_event, is_object

_members = msgspec.json.Decoder(dict[str, Raw])
_NULL = Raw(b"null")


class ResponsesAssembler:
    """A `base.Assembler`. The document is the `response` of the last event, byte for byte.

    Servers that leave `output` out of it get it filled in from the items that were said before. Where no last event
    came, the response as it was last described is given with the items that are whole, as `incomplete`.
    """

    def __init__(self) -> None:
        self._response: Raw | None = None
        self._items: dict[int, Raw] = {}
        self._ended = False

    def feed(self, event: WireEvent) -> None:
        wire = decode_event(event)
        if wire is None:
            return
        if is_object(wire.response) and not self._ended:
            self._response = Raw(bytes(wire.response))
            self._ended = wire.type in TERMINAL
        elif wire.type == "response.output_item.done" and is_object(wire.item):
            index = wire.output_index if wire.output_index is not None else len(self._items)
            self._items[index] = Raw(bytes(wire.item))

    def document(self) -> bytes:
        """The whole answer as JSON; an empty object where nothing described one."""
        if self._response is None:
            return b"{}"
        members = _members.decode(self._response)
        whole = members.get("output", _NULL) != _NULL
        if self._ended and (whole or not self._items):
            return bytes(self._response)
        members["output"] = Raw(msgspec.json.encode([self._items[index] for index in sorted(self._items)]))
        if not self._ended:
            members["status"] = Raw(b'"incomplete"')
        return msgspec.json.encode(members)
