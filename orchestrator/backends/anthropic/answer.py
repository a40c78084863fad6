"""The answer to a canonical request: a message's events, or its document, as deltas and one reply."""

from collections.abc import Sequence

from agents.errors import ModelError
from agents.messages import Delta, ModelReply, Usage
from orchestrator.backends.anthropic.errors import error_from_event
from orchestrator.backends.anthropic.stream import MessageAssembler
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.backends.place import Place
from orchestrator.backends.sse import ServerEvent
from orchestrator.dialects.chat_wire import loads_or_text
from orchestrator.dialects.messages_wire import decode_event, decode_message


def reported_error(data: bytes, place: Place, usage: Usage | None, partial: str) -> ModelError:
    """The error that the server put into its answer; what is no JSON is quoted as it is."""
    return error_from_event(loads_or_text(data), place, usage, partial)


class MessageAnswer:
    """Implements `orchestrator.backends.exchange.Answer`. Only `message_stop` makes a stream whole."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._assembler = MessageAssembler()
        self._pending: list[Delta] = []
        self.finished = False

    @property
    def usage(self) -> Usage | None:
        return self._assembler.usage

    @property
    def partial(self) -> str:
        return self._assembler.partial

    def event(self, event: ServerEvent) -> bool:
        if event.name == "error":
            raise self._reported(event.data)
        if not event.data or event.data.isspace():
            return False
        wire = decode_event(event.data)
        if wire is None:
            return False
        if wire.type == "error" or wire.error:
            raise self._reported(event.data)
        self._keep(self._assembler.add(wire))
        self.finished = self.finished or wire.type == "message_stop"
        return self.finished

    def document(self, data: bytes) -> None:
        message = decode_message(data)
        if message is not None and (message.type == "error" or message.error):
            raise self._reported(data)
        if message is None or message.type != "message":
            raise NotAnAnswer("no message")
        self._pending.extend(self._assembler.add_message(message))
        self.finished = message.stop_reason is not None

    def end(self) -> None:
        self._keep(self._assembler.finish())

    def take(self) -> Sequence[Delta]:
        if not self._pending:
            return ()
        batch, self._pending = self._pending, []
        return batch

    def reply(self) -> ModelReply:
        return self._assembler.reply()

    def _keep(self, delta: Delta | None) -> None:
        if delta is not None:
            self._pending.append(delta)

    def _reported(self, data: bytes) -> ModelError:
        return reported_error(data, self._place, self._assembler.usage, self._assembler.partial)
