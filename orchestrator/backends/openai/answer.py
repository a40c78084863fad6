"""The answer to a canonical request: chat-completion events and documents as deltas and one reply."""

from collections.abc import Sequence

from agents.errors import ModelError
from agents.messages import Delta, ModelReply, Usage
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.backends.openai.errors import error_from_event
from orchestrator.backends.openai.stream import ReplyAssembler
from orchestrator.backends.place import Place
from orchestrator.backends.sse import ServerEvent
from orchestrator.dialects.chat_wire import ChunkWire, decode_chunk, loads_or_text

END_MARKER = b"[DONE]"


def event_data(event: ServerEvent) -> bytes | None:
    """The JSON text of an event; empty for one without any, None for the stream's end marker."""
    data = event.data
    if data[:1] == b"{":
        return data
    data = data.strip()
    return None if data == END_MARKER else data


def reported_error(data: bytes, place: Place, usage: Usage | None, partial: str) -> ModelError:
    """The error that a server put into its answer; what is no JSON is quoted as it is."""
    return error_from_event(loads_or_text(data), place, usage, partial)


class CanonicalAnswer:
    """Implements `orchestrator.backends.exchange.Answer`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._assembler = ReplyAssembler()
        self._pending: list[Delta] = []

    @property
    def usage(self) -> Usage | None:
        return self._assembler.usage

    @property
    def partial(self) -> str:
        return self._assembler.partial

    @property
    def finished(self) -> bool:
        return self._assembler.finished

    def event(self, event: ServerEvent) -> bool:
        data = event_data(event)
        if data is None:
            return True
        if data:
            if event.name == "error":
                raise self._reported(data)
            wire = decode_chunk(data)
            if wire is not None:
                self._take(wire, data)
        return False

    def document(self, data: bytes) -> None:
        wire = decode_chunk(data)
        if wire is None or not (wire.choices or wire.error or wire.object == "error"):
            raise NotAnAnswer("no chat completion")
        self._take(wire, data)

    def end(self) -> None:
        rest = self._assembler.finish()
        if rest is not None:
            self._pending.append(rest)

    def take(self) -> Sequence[Delta]:
        if not self._pending:
            return ()
        batch, self._pending = self._pending, []
        return batch

    def reply(self) -> ModelReply:
        return self._assembler.reply()

    def _take(self, wire: ChunkWire, data: bytes) -> None:
        if wire.error or wire.object == "error":
            raise self._reported(data)
        delta = self._assembler.add(wire)
        if delta is not None:
            self._pending.append(delta)

    def _reported(self, data: bytes) -> ModelError:
        return reported_error(data, self._place, self._assembler.usage, self._assembler.partial)
