"""Programs' own requests to the simulated provider in this process: their dialects without a wire.

The provider's side of each dialect is the one that its HTTP server has, so an answer is the same here and there, event
for event. As with any adapter, what opens an answer waits for its first token, and a chat stream's end marker is left
to whoever writes the program's stream.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from agents.messages import Delta, Dialect, Message, ModelReply, ModelRequest, Usage, WireEvent, WireRequest
from orchestrator.backends.base import Progress
from orchestrator.backends.openai.answer import END_MARKER
from orchestrator.backends.simulated.chat import ask_chat
from orchestrator.backends.simulated.dialect import Asked, Writer
from orchestrator.backends.simulated.embeddings import ask_embedding
from orchestrator.backends.simulated.errors import SimError
from orchestrator.backends.simulated.messages import ask_count, ask_messages, count_document
from orchestrator.backends.simulated.provider import Answer, SimProvider
from orchestrator.backends.simulated.responses import ask_responses
from orchestrator.policy.feedback import Reading

DIALECTS: Final[frozenset[Dialect]] = frozenset({"chat", "responses", "messages", "embeddings", "count_tokens"})

_TRUE: Final = msgspec.Raw(b"true")

T = TypeVar("T")

_ASK: Final[dict[Dialect, Callable[[SimProvider, bytes, int], Asked]]] = {
    "chat": ask_chat,
    "responses": ask_responses,
    "messages": ask_messages,
}


class RelaySink:
    """Tells an attempt what the provider does. `began` says whether an answer has, `texts` what it said so far."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._writer: Writer | None = None
        self._held: list[WireEvent] = []
        self._usage = Usage()
        self.began = False
        self.texts: list[str] = []

    async def answer(self, provider: SimProvider, request: ModelRequest) -> ModelReply:
        """The provider's answer to a request with `wire`. Raises `SimError` and `Hangup`."""
        wire = request.wire
        assert wire is not None
        body = _body(wire, request.model)
        if wire.dialect == "embeddings":
            return await self._embeddings(provider, body, request.model)
        if wire.dialect == "count_tokens":
            return await self._count(provider, body, request.model)
        ask = _ASK[wire.dialect]
        asked = _understood(provider, lambda: ask(provider, body, provider.statistics().arrived + 1))
        self._writer = asked.writer
        answer = await provider.serve(asked.request, self, asked.wishes)
        await self._end(asked.writer, answer)
        reply = answer.reply
        return ModelReply(Message("assistant"), reply.finish_reason, reply.usage, reply.model)

    async def _embeddings(self, provider: SimProvider, body: bytes, model: str) -> ModelReply:
        asked = _understood(provider, lambda: ask_embedding(provider, body))
        await provider.embed(model, asked.tokens, self)
        usage = Usage(input=asked.tokens, output=0)
        self._progress.usage(usage)
        return ModelReply(Message("assistant"), "stop", usage, model, wire=asked.document())

    async def _count(self, provider: SimProvider, body: bytes, model: str) -> ModelReply:
        asked, wishes = _understood(provider, lambda: ask_count(body))
        tokens = await provider.count(asked, self, wishes)
        return ModelReply(Message("assistant"), "stop", Usage(input=0, output=0), model, wire=count_document(tokens))

    async def _end(self, writer: Writer, answer: Answer) -> None:
        events = [event for event in writer.end(answer) if event.data != END_MARKER]
        held, self._held = self._held, []
        await self._progress.deltas((Delta(wire=(*held, *events), tokens=0),))
        for _ in range(answer.usage_reports):
            self._progress.usage(answer.reply.usage)

    # What the provider tells.

    def admitted(self, usage: Usage) -> None:
        self._usage = usage

    async def headers(self, readings: Sequence[Reading]) -> None:
        self.began = True
        self._progress.headers(readings)
        if self._writer is not None:
            self._held = self._writer.begin(self._usage)

    async def alive(self) -> None:
        self._progress.alive()

    async def deltas(self, deltas: tuple[Delta, ...]) -> None:
        if self._writer is None:
            return
        self.texts.extend(delta.text for delta in deltas)
        held, self._held = self._held, []
        wire = (*held, *self._writer.deltas(deltas))
        await self._progress.deltas((Delta(wire=wire, tokens=len(deltas)),))


def _understood(provider: SimProvider, read: Callable[[], T]) -> T:
    """What a request asks for; one that makes no sense is counted, and told of the limits like any other."""
    try:
        return read()
    except SimError as error:
        provider.count_invalid(error)
        raise


def _body(wire: WireRequest, model: str) -> bytes:
    """As an adapter would send it: for this provider's name of the model, and streamed where there are streams.

    A program that wants a chat answer in one piece gets its usage without asking.
    """
    fields: dict[str, object] = {**wire.fields, "model": model}
    if wire.dialect in _ASK:
        fields["stream"] = True
    if wire.dialect == "chat" and wire.fields.get("stream") != _TRUE:
        fields["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(fields)
