"""OpenAI's chat completions from the provider's side: answers put into words.

Source: OpenAI's API reference, "Chat" and "Streaming".
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agents.messages import Delta, ModelReply, Usage, WireEvent
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.dialect import COMMENT, Events, echo
from orchestrator.backends.simulated.errors import SimError
from orchestrator.backends.simulated.logprobs import logprobs
from orchestrator.backends.simulated.wire import error_object
from orchestrator.backends.simulated.wishes import choice_of

DONE = WireEvent("", b"[DONE]")


class ChatWriter:
    """Words one answer; every chunk of it carries the same id, time and model. See `Writer`."""

    heartbeat = COMMENT

    def __init__(
        self,
        number: int,
        model: str,
        choices: int,
        pieces: Callable[[str], list[str]],
        usage: bool,
        top_logprobs: int | None,
        x_sim: Any,
    ) -> None:
        self._common = {"id": f"chatcmpl-{number:08d}", "object": "", "created": int(time.time()), "model": model}
        self._tail = {"service_tier": "default", "system_fingerprint": "fp_sim", **echo(x_sim)}
        self._choices = choices
        self._pieces = pieces
        self._usage = usage
        self._top = top_logprobs

    def begin(self, usage: Usage) -> Events:
        return [self._chunk(choice, {"role": "assistant", "content": ""}) for choice in range(self._choices)]

    def deltas(self, deltas: Sequence[Delta]) -> Events:
        return [self._chunk(choice_of(delta), _delta(delta), delta.text) for delta in deltas]

    def end(self, answer: Answer) -> Events:
        """The finish of every choice; then, if asked for, the usage chunk, which has no choices."""
        replies = (answer.reply, *answer.others)
        events = [self._chunk(choice, {}, finish=reply.finish_reason) for choice, reply in enumerate(replies)]
        if self._usage:
            chunk = self._object("chat.completion.chunk", [], usage=_usage(answer))
            events += [WireEvent("", msgspec.json.encode(chunk))] * answer.usage_reports
        return [*events, DONE]

    def broken(self, error: SimError) -> Events:
        return [WireEvent("", msgspec.json.encode(error_object(error))), DONE]

    def document(self, answer: Answer) -> bytes:
        choices = [self._choice(choice, reply) for choice, reply in enumerate((answer.reply, *answer.others))]
        usage = _usage(answer) if answer.usage_reports else None
        return msgspec.json.encode(self._object("chat.completion", choices, usage=usage))

    def _choice(self, index: int, reply: ModelReply) -> dict[str, Any]:
        message = reply.message
        body: dict[str, Any] = {"role": "assistant", "content": message.content or None, "refusal": None}
        if message.tool_calls:
            body["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.tool_calls
            ]
        found = {"index": index, "message": body, "finish_reason": reply.finish_reason}
        return {**found, "logprobs": self._logprobs(message.content)}

    def _chunk(self, choice: int, delta: dict[str, Any], text: str = "", finish: str | None = None) -> WireEvent:
        found: dict[str, Any] = {"index": choice, "delta": delta, "finish_reason": finish}
        if self._top is not None:
            found["logprobs"] = self._logprobs(text)
        return WireEvent("", msgspec.json.encode(self._object("chat.completion.chunk", [found])))

    def _logprobs(self, text: str) -> dict[str, Any] | None:
        if self._top is None or not text:
            return None
        return {"content": logprobs(self._pieces(text), self._top), "refusal": None}

    def _object(self, kind: str, choices: list[dict[str, Any]], usage: Any = None) -> dict[str, Any]:
        found = {**self._common, "object": kind, "choices": choices, **self._tail}
        if usage is not None:
            found["usage"] = usage
        return found


def _delta(delta: Delta) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if delta.text or not delta.tool_calls:
        found["content"] = delta.text
    if delta.tool_calls:
        found["tool_calls"] = [
            {"index": c.index, "id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            if c.id
            else {"index": c.index, "function": {"arguments": c.arguments}}
            for c in delta.tool_calls
        ]
    return found


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.reply.usage
    given, output = usage.all_input or 0, usage.output or 0
    found: dict[str, Any] = {"prompt_tokens": given, "completion_tokens": output, "total_tokens": given + output}
    if usage.cached is not None:
        found["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return found
