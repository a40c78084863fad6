"""A model that answers from the history: for tests, examples and dry runs.

Its script is a pure function of the transcript, so the same history always gets the same answer, whoever asks and
however often. That makes it safe to resume: a run taken up by another process continues as if nothing had happened.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import trio

from agents.errors import CallTimeout, ModelError
from agents.messages import FinishReason, Message, ModelReply, ModelRequest, ToolCall, Usage
from agents.port import Priority, Receipt
from agents.size import input_bound

Answer = Message | ModelReply | Exception
Script = Callable[[tuple[Message, ...]], Answer]

BYTES_PER_TOKEN = 4


def say(text: str) -> Message:
    """An answer in words."""
    return Message("assistant", text)


def ask(tool: str, arguments: object = None, *, id: str = "", text: str = "") -> Message:
    """An answer that asks for one tool call; `arguments` is encoded as JSON, unless it is JSON text already."""
    return ask_all((tool, arguments, id), text=text)


def ask_all(*calls: tuple[str, object, str] | tuple[str, object], text: str = "") -> Message:
    """An answer that asks for several tool calls at once, each (tool, arguments) or (tool, arguments, id)."""
    made = []
    for place, call in enumerate(calls):
        arguments = call[1] if isinstance(call[1], str) else msgspec.json.encode(call[1] or {}).decode()
        made.append(ToolCall((call[2] if len(call) == 3 else "") or f"call_{place}", call[0], arguments))
    return Message("assistant", text, tool_calls=tuple(made))


def in_turn(*answers: Answer) -> Script:
    """The n-th answer to the n-th request since the last user message; the last one is repeated for ever."""

    def script(messages: tuple[Message, ...]) -> Answer:
        return answers[min(turns_taken(messages), len(answers) - 1)]

    return script


def turns_taken(messages: Sequence[Message]) -> int:
    """How many answers the history has since the last user message."""
    turns = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        turns += message.role == "assistant"
    return turns


class ScriptedModel:
    """A `ModelPort` over a script. `latency` is in seconds per answer; usage is counted from the texts' bytes."""

    __slots__ = ("_latency", "_script", "requests")

    def __init__(self, script: Script, *, latency: float = 0.0) -> None:
        self._script = script
        self._latency = latency
        self.requests: list[ModelRequest] = []

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        self.requests.append(request)
        ready = trio.current_time() + self._latency
        await trio.sleep_until(min(ready, deadline))
        if ready > deadline:
            raise CallTimeout("the deadline passed before the answer")
        answer = self._script(request.messages)
        if isinstance(answer, Exception):
            raise _fresh(answer)
        return answer if isinstance(answer, ModelReply) else _reply(request, answer)


def _fresh(error: Exception) -> Exception:
    """The same error without the traceback of an earlier raise."""
    return error.with_traceback(None) if isinstance(error, ModelError) else error


def _reply(request: ModelRequest, message: Message) -> ModelReply:
    size = len(message.content.encode()) + sum(len(c.name) + len(c.arguments.encode()) for c in message.tool_calls)
    output = -(-size // BYTES_PER_TOKEN)
    finish: FinishReason = "tool_calls" if message.tool_calls else "stop"
    if request.max_tokens is not None and output > request.max_tokens:
        output, finish = request.max_tokens, "length"
        kept = message.content.encode()[: output * BYTES_PER_TOKEN].decode(errors="ignore")
        message = Message("assistant", kept)
    usage = Usage(input=-(-input_bound(request) // BYTES_PER_TOKEN), output=output)
    return ModelReply(message, finish, usage, model=request.model)
