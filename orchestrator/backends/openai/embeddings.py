"""Embeddings: one document in, one document out. The vectors are never decoded; only what they cost is read.

Source: the OpenAI API reference, "Embeddings".
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from agents.messages import Delta, Message, ModelReply, Usage, WireRequest
from orchestrator.backends.exchange import NotAnAnswer
from orchestrator.backends.openai.answer import reported_error
from orchestrator.backends.place import Place
from orchestrator.backends.sse import ServerEvent
from orchestrator.dialects.chat_wire import NotJSON
from orchestrator.dialects.embeddings import embedding_usage


class _Document(Struct):
    data: Raw = Raw(b"null")
    error: Raw = Raw(b"null")
    usage: Raw = Raw(b"null")


_decoder: Final = msgspec.json.Decoder(_Document)


def embeddings_body(wire: WireRequest, model: str) -> bytes:
    """The body as the program wrote it, for the server's own name of the model."""
    return msgspec.json.encode({**wire.fields, "model": model})


class EmbeddingsAnswer:
    """Implements `orchestrator.backends.exchange.Answer`; the reply has the server's document as it is."""

    partial = ""

    def __init__(self, place: Place, model: str) -> None:
        self._place = place
        self._model = model
        self._document = b""
        self.usage: Usage | None = None

    @property
    def finished(self) -> bool:
        return bool(self._document)

    def event(self, event: ServerEvent) -> bool:
        raise NotAnAnswer("no list of embeddings")

    def document(self, data: bytes) -> None:
        try:
            found = _decoder.decode(data)
        except msgspec.ValidationError:
            raise NotAnAnswer("no list of embeddings") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotJSON("not JSON") from None
        if bytes(found.error) != b"null":
            raise reported_error(data, self._place, None, "")
        if bytes(memoryview(found.data)[:1]) != b"[":
            raise NotAnAnswer("no list of embeddings")
        self.usage = embedding_usage(b'{"usage":%b}' % found.usage)
        self._document = data

    def end(self) -> None:
        """Nothing is held back."""

    def take(self) -> Sequence[Delta]:
        return ()

    def reply(self) -> ModelReply:
        return ModelReply(Message("assistant"), "stop", self.usage or Usage(), self._model, wire=self._document)
