"""Events of a message put together into deltas and one reply: pure, no I/O.

A whole document goes the same way as a stream (each of its blocks is one large delta), so both give replies of one
shape. Thinking becomes the reply's reasoning, without its signature; blocks that a canonical reply has no place for
(server tools and their results, citations, redacted thinking) are passed over.

What a stop reason comes to is in `orchestrator.dialects.messages_reader`.
"""

import secrets
from collections.abc import Callable

from agents.messages import Delta, FinishReason, Message, ModelReply, ToolCall, ToolCallDelta, Usage
from orchestrator.dialects.chat_tools import is_json_object
from orchestrator.dialects.messages_reader import STOP_REASONS
from orchestrator.dialects.messages_wire import (
    BlockWire,
    DeltaWire,
    EventWire,
    MessageWire,
    UsageWire,
    larger,
    normalise_usage,
)
from orchestrator.dialects.text import TextJoiner, scrub


def new_call_id() -> str:
    """An id in the dialect's form, unique across transcripts."""
    return f"toolu_{secrets.token_hex(12)}"


class _OpenCall:
    __slots__ = ("arguments", "id", "name", "place")

    def __init__(self, place: int, call_id: str, name: str) -> None:
        self.place = place
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []

    def whole(self) -> ToolCall:
        """The call as it stands. No arguments at all are `{}`, everything else stays as the model wrote it."""
        arguments = "".join(self.arguments)
        return ToolCall(self.id, self.name, arguments if arguments.strip() else "{}")


class MessageAssembler:
    """Takes events, gives what each adds, and in the end the whole reply."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = TextJoiner()
        self._reasoning_joiner = TextJoiner()
        self._calls: list[_OpenCall] = []
        self._at_index: dict[int | None, _OpenCall] = {}
        self._stop: str | None = None
        self._model = ""
        self.usage: Usage | None = None

    @property
    def partial(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, event: EventWire) -> Delta | None:
        """What the event adds for a reader; None if that is nothing (a ping, usage, a block's end)."""
        if event.type == "content_block_delta":
            return self._piece(event.index, event.delta) if event.delta is not None else None
        if event.type == "content_block_start":
            return self._block(event.index, event.content_block) if event.content_block is not None else None
        if event.type == "message_start" and event.message is not None:
            self._model = self._model or scrub(event.message.model or "")
            self._report(event.message.usage, complete=False)
        elif event.type == "message_delta":
            self._stop = (event.delta.stop_reason if event.delta is not None else None) or self._stop
            self._report(event.usage, complete=True)
        return None

    def add_message(self, message: MessageWire) -> list[Delta]:
        """A whole answer in one piece."""
        self._model = scrub(message.model or "")
        self._stop = message.stop_reason
        self._report(message.usage, complete=True)
        deltas = [self._block(index, block) for index, block in enumerate(message.content)]
        return [delta for delta in deltas if delta is not None]

    def finish(self) -> Delta | None:
        """What was held back, once no more comes."""
        return self._keep(self._text_joiner.finish(), self._reasoning_joiner.finish())

    def reply(self) -> ModelReply:
        """The whole reply; call it only when the server has said that it is whole."""
        calls = tuple(call.whole() for call in self._calls)
        message = Message("assistant", self.partial, calls, reasoning="".join(self._reasoning))
        malformed = tuple(call.id for call in calls if not is_json_object(call.arguments))
        return ModelReply(message, self._reason(), self.usage or Usage(), self._model, malformed)

    def _reason(self) -> FinishReason:
        reason = STOP_REASONS.get(self._stop or "", "stop")
        if reason in ("stop", "tool_calls"):
            return "tool_calls" if self._calls else "stop"
        return reason

    def _report(self, usage: UsageWire | None, *, complete: bool) -> None:
        if usage is not None:
            self.usage = larger(self.usage, normalise_usage(usage, complete=complete))

    def _block(self, index: int | None, block: BlockWire) -> Delta | None:
        if block.type == "tool_use":
            return self._open(index, block)
        self._at_index.pop(index, None)
        if block.type == "text":
            return self._say(block.text)
        return self._think(block.thinking) if block.type == "thinking" else None

    def _piece(self, index: int | None, delta: DeltaWire) -> Delta | None:
        if delta.type == "text_delta":
            return self._say(delta.text)
        if delta.type == "thinking_delta":
            return self._think(delta.thinking)
        call = self._at_index.get(index)
        if delta.type != "input_json_delta" or not delta.partial_json or call is None:
            return None
        arguments = scrub(delta.partial_json)
        call.arguments.append(arguments)
        return Delta(tool_calls=(ToolCallDelta(call.place, arguments=arguments),))

    def _open(self, index: int | None, block: BlockWire) -> Delta:
        call_id = scrub(block.id or "")
        if not call_id or any(other.id == call_id for other in self._calls):
            call_id = self._new_id()
        call = _OpenCall(len(self._calls), call_id, scrub(block.name or ""))
        self._calls.append(call)
        self._at_index[index] = call
        # A stream opens a call with an empty object and writes the arguments after it; a document has them here.
        given = bytes(block.input).decode()
        arguments = "" if given in ("{}", "null", '""') else given
        call.arguments.append(arguments)
        return Delta(tool_calls=(ToolCallDelta(call.place, call.id, call.name, arguments),))

    def _say(self, text: str | None) -> Delta | None:
        return self._keep(self._text_joiner.add(text), "") if text else None

    def _think(self, text: str | None) -> Delta | None:
        return self._keep("", self._reasoning_joiner.add(text)) if text else None

    def _keep(self, text: str, reasoning: str) -> Delta | None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        return Delta(text, reasoning) if text or reasoning else None
