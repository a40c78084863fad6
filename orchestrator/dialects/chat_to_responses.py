"""An answer in chat completions as the events of the responses dialect.

The order is the provider's: `response.created`, `response.in_progress`, then the items in the order in which the model
began them, then `response.completed`, or `response.incomplete` where the answer was cut short. Text and reasoning are
closed as soon as something else begins; function calls stay open to the end, since their fragments may alternate.
Chat says the usage after the end, so the last event waits for the stream's own end.

Ids are made of the answer's own id, and the time is the one it names, so the same chunks give the same events. A chunk
is relayed under the first choice: requests of this dialect ask for no other.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from agents.messages import FinishReason, ToolCallDelta, WireEvent, WireRequest
from orchestrator.dialects.chat_tools import ToolCallAssembler
from orchestrator.dialects.chat_wire import FINISH_REASONS, ChunkWire, DeltaWire, decode_chunk
from orchestrator.dialects.responses_document import ChatUsage, Description
from orchestrator.dialects.responses_output import CallItem, PartKind, Say, TextItem
from orchestrator.dialects.text import TextJoiner

_KINDS: Final[tuple[PartKind, ...]] = ("reasoning_text", "output_text", "refusal")


class _Top(Struct):
    token: str = ""
    logprob: float = 0.0
    bytes: list[int] | None = None


class _Logprob(_Top):
    top_logprobs: list[_Top] | None = None


class _Logprobs(Struct):
    content: list[_Logprob] | None = None


class _Choice(Struct):
    logprobs: _Logprobs | None = None


class _Chunk(Struct):
    """What a chunk has besides what is read of every chunk."""

    id: str | None = None
    created: int | None = None
    usage: ChatUsage | None = None
    choices: list[_Choice] | None = None


_beside = msgspec.json.Decoder(_Chunk)
_encoder = msgspec.json.Encoder()


class ChatToResponses:
    """A `base.Translator`. `new_id` and `now` (seconds since the epoch) serve answers that name no id and no time."""

    def __init__(
        self,
        model: str,
        wire: WireRequest,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._wire = wire
        self._new_id = new_id
        self._now = now
        self._with_logprobs = any(name in wire.fields for name in ("include", "top_logprobs"))
        self._stem = ""
        self._sequence = 0
        self._description: Description | None = None
        self._calls = ToolCallAssembler(lambda: f"call_{new_id()}")
        self._joiners = {kind: TextJoiner() for kind in _KINDS}
        self._items: list[TextItem | CallItem] = []
        self._statuses: dict[int, str] = {}
        self._at_place: dict[int, CallItem] = {}
        self._finish: FinishReason | None = None
        self._usage: dict[str, Any] | None = None
        self._ended = False

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        """See `base.Translator`. Raises `chat_wire.NotJSON`."""
        if self._ended:
            return ()
        if event.data[:1] != b"{" and event.data.strip() == b"[DONE]":
            return self.end()
        wire = decode_chunk(event.data)
        if wire is None or wire.error:
            return ()
        beside = self._beside(event.data, wire)
        events = self._begin(wire, beside) if self._description is None else []
        if beside is not None and beside.usage is not None:
            self._usage = beside.usage.as_response() or self._usage
        for choice in wire.choices or ():
            if choice.index:
                continue
            said = choice.delta or choice.message
            if said is not None:
                events += self._number(self._delta(said, _logprobs(beside)))
            if choice.finish_reason:
                self._finish = FINISH_REASONS.get(choice.finish_reason.lower(), "stop")
        return events

    def end(self) -> Sequence[WireEvent]:
        """Closes what is open and says how the answer ended."""
        if self._ended:
            return ()
        self._ended = True
        events = self._begin(ChunkWire(), None) if self._description is None else []
        status = "completed" if self._finish in ("stop", "tool_calls") else "incomplete"
        events += self._number(self._close_all(status))
        assert self._description is not None
        output = [item.whole(self._statuses[item.index]) for item in self._items]
        response = self._description.at_the_end(self._finish, output, self._usage)
        return [*events, self._event(f"response.{status}", {"response": response})]

    def _beside(self, data: bytes, wire: ChunkWire) -> _Chunk | None:
        if self._description is not None and wire.usage is None and not self._with_logprobs:
            return None
        try:
            return _beside.decode(data)
        except (msgspec.DecodeError, RecursionError):
            # a server that is loose about these has them left out, and its answer relayed
            usage = wire.usage
            counts = ChatUsage(usage.prompt_tokens, usage.completion_tokens) if usage is not None else None
            return _Chunk(usage=counts)

    def _begin(self, wire: ChunkWire, beside: _Chunk | None) -> list[WireEvent]:
        answer_id = (beside.id if beside is not None else None) or self._new_id()
        self._stem = answer_id.removeprefix("chatcmpl-")
        created = beside.created if beside is not None else None
        self._description = Description(
            self._wire,
            response_id=f"resp_{self._stem}",
            model=wire.model or self._model,
            created=created if created else int(self._now()),
        )
        response = self._description.so_far()
        return [self._event(f"response.{name}", {"response": response}) for name in ("created", "in_progress")]

    def _delta(self, delta: DeltaWire, logprobs: list[dict[str, Any]]) -> Say:
        texts = (delta.reasoning_content or delta.reasoning, delta.content, delta.refusal)
        for kind, text in zip(_KINDS, texts, strict=True):
            joined = self._joiners[kind].add(text) if text else ""
            if joined:
                yield from self._text(kind, joined, logprobs if kind == "output_text" else [])
        for call in delta.tool_calls or ():
            fragment = self._calls.add(call)
            if fragment is not None:
                yield from self._call(fragment)

    def _text(self, kind: PartKind, text: str, logprobs: list[dict[str, Any]]) -> Say:
        reasoning = kind == "reasoning_text"
        item = self._items[-1] if self._items else None
        if not (isinstance(item, TextItem) and item.reasoning == reasoning):
            yield from self._close_text()
            stem = "rs" if reasoning else "msg"
            item = TextItem(len(self._items), self._item_id(stem), reasoning=reasoning)
            self._items.append(item)
            yield from item.open()
        yield from item.add(kind, text, logprobs)

    def _call(self, fragment: ToolCallDelta) -> Say:
        item = self._at_place.get(fragment.index)
        if item is None:
            yield from self._close_text()
            item = CallItem(len(self._items), self._item_id("fc"), fragment.id)
            self._items.append(item)
            self._at_place[fragment.index] = item
        yield from item.add(fragment.name, fragment.arguments)

    def _close_text(self) -> Say:
        """Closes the text or reasoning that stands last, since something else begins."""
        if self._items and isinstance(self._items[-1], TextItem):
            yield from self._close(self._items[-1], "completed")

    def _close_all(self, status: str) -> Say:
        for kind, joiner in self._joiners.items():
            rest = joiner.finish()
            if rest:
                yield from self._text(kind, rest, [])
        for item in self._items:
            if item.index not in self._statuses:
                yield from self._close(item, status)

    def _close(self, item: TextItem | CallItem, status: str) -> Say:
        self._statuses[item.index] = status
        yield from item.close(status)

    def _item_id(self, stem: str) -> str:
        return f"{stem}_{self._stem}_{len(self._items)}"

    def _number(self, said: Say) -> list[WireEvent]:
        return [self._event(f"response.{name}", members) for name, members in said]

    def _event(self, name: str, members: dict[str, Any]) -> WireEvent:
        data = _encoder.encode({"type": name, "sequence_number": self._sequence, **members})
        self._sequence += 1
        return WireEvent(name, data)


def _logprobs(beside: _Chunk | None) -> list[dict[str, Any]]:
    """The tokens' probabilities as a whole answer has them."""
    first = beside.choices[0].logprobs if beside is not None and beside.choices else None
    return [
        {**_top(token), "top_logprobs": [_top(other) for other in token.top_logprobs or ()]}
        for token in (first.content if first is not None else None) or ()
    ]


def _top(token: _Top) -> dict[str, Any]:
    octets = token.bytes if token.bytes is not None else list(token.token.encode("utf-8", "replace"))
    return {"token": token.token, "bytes": octets, "logprob": token.logprob}
