"""The answer to a program's own request: events passed on in its dialect, and read on the way for what they cost.

Where the server speaks that dialect, an event is passed on as the very bytes that came; it is decoded once, by the
reader, for usage, the end and the count of tokens. All events that one read brought go on together.

The chat dialect's end marker is no event: whoever writes the program's stream ends it.

What comes before the first token (a role, an answer's opening, a heartbeat) waits for it: an attempt's first batch is
its first token, and an answer that fails before one can be tried again without its reader seeing anything. A server
that opens at length and still brings none is not held back for ever.
"""

from collections.abc import Sequence
from typing import Final

from agents.messages import Delta, Dialect, Message, ModelReply, Usage, WireEvent
from orchestrator.backends.openai.answer import END_MARKER, event_data
from orchestrator.backends.openai.documents import events_of_document
from orchestrator.backends.sse import ServerEvent
from orchestrator.dialects.base import Reader, Translator
from orchestrator.dialects.chat_reader import ChatReader

_UNNAMED: Final = "message"
_MOST_HELD: Final = 64
"""Events without a token that wait for the first one that has any."""


class RelayAnswer:
    """Implements `orchestrator.backends.exchange.Answer`.

    The reply's message stays empty: its text has gone out already, and nobody would read it there.
    """

    def __init__(self, native: Dialect, reader: Reader, translator: Translator, model: str) -> None:
        self._native = native
        self._reader = reader
        self._translator = translator
        self._model = model
        self._events: list[WireEvent] = []
        self._tokens = 0
        self._begun = False

    @property
    def usage(self) -> Usage | None:
        return self._reader.usage

    @property
    def partial(self) -> str:
        return self._reader.text

    @property
    def finished(self) -> bool:
        return self._reader.complete

    def event(self, event: ServerEvent) -> bool:
        data = event_data(event)
        if data is None:
            return True
        if data:
            self._add(WireEvent("" if event.name == _UNNAMED else event.name, data))
        return False

    def document(self, data: bytes) -> None:
        for event in events_of_document(data, self._native):
            self._add(event)

    def end(self) -> None:
        if self.finished:
            self._begun = True
            self._events.extend(self._translator.end())

    def take(self) -> Sequence[Delta]:
        if self._events and self._events[-1].data == END_MARKER:
            self._events.pop()
        if not self._begun and not self._tokens:
            if len(self._events) <= _MOST_HELD:
                return ()
            # Whoever has seen this much has seen an answer begin: it cannot be tried again unseen.
            self._tokens = 1
        if not self._events:
            return ()
        batch = Delta(wire=tuple(self._events), tokens=self._tokens)
        self._events.clear()
        self._tokens = 0
        self._begun = True
        return (batch,)

    def reply(self) -> ModelReply:
        return ModelReply(Message("assistant"), self._reader.finish or "stop", self.usage or Usage(), self._model)

    def _add(self, event: WireEvent) -> None:
        self._tokens += self._reader.feed(event)
        self._events.extend(self._translator.feed(event))


class ChatRelay(RelayAnswer):
    """From a chat server to a chat program. What the reader finds plain goes on without another look at its bytes."""

    def __init__(self, reader: ChatReader, translator: Translator, model: str) -> None:
        super().__init__("chat", reader, translator, model)
        self._chat = reader

    def _add(self, event: WireEvent) -> None:
        self._tokens += self._chat.feed(event)
        if self._chat.plain:
            self._events.append(event)
        else:
            self._events.extend(self._translator.feed(event))
