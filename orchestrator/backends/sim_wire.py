"""OpenAI's chat-completions dialect from the provider's side: requests decoded, answers and errors encoded.

Source: OpenAI's API reference, "Chat" and "Streaming", and the guide "Rate limits" for the headers. Limits that OpenAI
has no header for (input and output tokens) are reported under Anthropic's names. Fields that a simulated model has no
use for are accepted and ignored, as real servers do; wrong types are refused with 400.
"""

import math
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.messages import Delta, Message, ModelReply, ModelRequest, ToolCall, ToolSpec, Usage
from orchestrator.backends.sim_errors import SimError, invalid
from orchestrator.policy.feedback import Reading

Headers = list[tuple[str, str]]


class _CallFunction(Struct):
    name: str
    arguments: str = ""


class _Call(Struct):
    id: str
    function: _CallFunction


class _Part(Struct):
    type: str
    text: str = ""


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Function(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(Struct):
    type: Literal["function"]
    function: _Function


class _StreamOptions(Struct):
    include_usage: bool | None = None


class ChatRequest(Struct):
    """The body of `POST /v1/chat/completions`, as far as it matters here."""

    model: str
    messages: list[_Message]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None
    x_sim: dict[str, int] | None = None

    @property
    def usage_asked(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def request(self) -> ModelRequest:
        """The same request in the words of `agents.messages`. Raises `SimError` 400."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return ModelRequest(
            self.model,
            tuple(_message(i, m) for i, m in enumerate(self.messages)),
            tools=tuple(
                ToolSpec(t.function.name, t.function.description or "", t.function.parameters or {})
                for t in self.tools or ()
            ),
            max_tokens=self.max_completion_tokens or self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            stop=stop,
            tool_choice=self.tool_choice,
            response_format=self.response_format,
            extra={"x_sim": self.x_sim} if self.x_sim else {},
        )


_DECODER = msgspec.json.Decoder(ChatRequest)


def decode(body: bytes) -> ChatRequest:
    """The body of a request. Raises `SimError` 400."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"the body is not a valid request: {error}") from None


def _message(index: int, message: _Message) -> Message:
    content = message.content
    if isinstance(content, list):
        content = "".join(part.text for part in content)
    if content is None:
        if message.role != "assistant" or not message.tool_calls:
            raise invalid(f"messages[{index}].content: null is only allowed beside tool calls")
        content = ""
    if (message.role == "tool") != (message.tool_call_id is not None):
        raise invalid(f"messages[{index}].tool_call_id: needed on messages of role tool, and only there")
    calls = tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ())
    role = "system" if message.role == "developer" else message.role
    return Message(role, content, calls, message.tool_call_id)


class Writer:
    """Encodes one answer; every chunk of it carries the same id, time and model."""

    def __init__(self, number: int, model: str) -> None:
        self._id = f"chatcmpl-{number:08d}"
        self._created = int(time.time())
        self._model = model

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self._event([choice])

    def deltas(self, deltas: Sequence[Delta]) -> bytes:
        return b"".join(self.chunk(_delta(delta)) for delta in deltas)

    def usage(self, usage: Usage) -> bytes:
        """The usage chunk, which has no choices."""
        return self._event([], usage)

    def whole(self, reply: ModelReply, *, usage: bool) -> bytes:
        """The answer in one piece."""
        message = reply.message
        body: dict[str, Any] = {"role": "assistant", "content": message.content or None}
        if message.tool_calls:
            body["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.tool_calls
            ]
        choice = {"index": 0, "message": body, "finish_reason": reply.finish_reason}
        return msgspec.json.encode(self._object("chat.completion", [choice], reply.usage if usage else None))

    def _event(self, choices: list[dict[str, Any]], usage: Usage | None = None) -> bytes:
        return event(msgspec.json.encode(self._object("chat.completion.chunk", choices, usage)))

    def _object(self, kind: str, choices: list[dict[str, Any]], usage: Usage | None) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self._id, "object": kind, "created": self._created, "model": self._model}
        found["choices"] = choices
        if usage is not None:
            found["usage"] = _usage(usage)
        return found


def event(data: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + data + b"\n\n"


DONE = event(b"[DONE]")
HEARTBEAT = b": still working\n\n"


def error_object(error: SimError) -> dict[str, Any]:
    """The error object, in OpenAI's shape."""
    return {"error": {"message": str(error), "type": error.type, "param": None, "code": error.code}}


def error_body(error: SimError) -> bytes:
    """The body of an answer that is this error."""
    return msgspec.json.encode(error_object(error))


def models_body(names: Iterable[str]) -> bytes:
    """The list of models."""
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "headrace"} for name in names]
    return msgspec.json.encode({"object": "list", "data": rows})


def limit_headers(readings: Iterable[Reading]) -> Headers:
    """The rate-limit headers; where several limits share a name, those of the one with least left."""
    tightest: dict[str, Reading] = {}
    for reading in readings:
        known = tightest.get(reading.kind)
        if known is None or _left(reading) < _left(known):
            tightest[reading.kind] = reading
    headers: Headers = []
    for kind, reading in tightest.items():
        limit, remaining = f"{reading.limit or 0:.0f}", f"{math.floor(reading.remaining or 0)}"
        reset = reading.reset or 0.0
        if kind in ("input_tokens", "output_tokens"):
            name = f"anthropic-ratelimit-{kind.replace('_', '-')}"
            headers += [(f"{name}-limit", limit), (f"{name}-remaining", remaining)]
            headers.append((f"{name}-reset", _timestamp(reset)))
        else:
            name = "tokens" if kind == "total_tokens" else kind
            headers += [(f"x-ratelimit-limit-{name}", limit), (f"x-ratelimit-remaining-{name}", remaining)]
            headers.append((f"x-ratelimit-reset-{name}", duration(reset)))
    return headers


def retry_headers(seconds: float) -> Headers:
    """`retry-after` in whole seconds, never too short, and exactly in milliseconds."""
    return [("retry-after", f"{math.ceil(seconds)}"), ("retry-after-ms", f"{math.ceil(seconds * 1000)}")]


def duration(seconds: float) -> str:
    """A span as OpenAI writes it: `88ms`, `1.5s`, `6m0s`, `2h0m5s`; rounded up to a millisecond."""
    milliseconds = math.ceil(seconds * 1000 - 1e-6)
    if milliseconds < 1000:
        return f"{max(0, milliseconds)}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    tail = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def _left(reading: Reading) -> float:
    return (reading.remaining or 0.0) / (reading.limit or 1.0)


def _timestamp(seconds: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=math.ceil(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


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


def _usage(usage: Usage) -> dict[str, Any]:
    given, output = usage.all_input or 0, usage.output or 0
    found: dict[str, Any] = {"prompt_tokens": given, "completion_tokens": output, "total_tokens": given + output}
    if usage.cached is not None:
        found["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return found
