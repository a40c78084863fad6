"""What an OpenAI-compatible server puts on the wire, as bytes: response heads, HTTP chunks, events, whole answers."""

import json

from agents.messages import Message, ModelRequest, Usage

# Bytes of HTTP.


def head(status: int = 200, content_type: str = "text/event-stream", **headers: str) -> bytes:
    """A response head; underscores in header names become dashes."""
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def stream_head(**headers: str) -> bytes:
    return head(transfer_encoding="chunked", **headers)


def frame(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def stream(*events: bytes, **headers: str) -> bytes:
    """A whole event-stream response, every event in an HTTP chunk of its own."""
    return stream_head(**headers) + b"".join(map(frame, events)) + END


def whole(status: int, body: bytes, content_type: str = "application/json", **headers: str) -> bytes:
    """A whole response with a content length."""
    return head(status, content_type, content_length=str(len(body)), **headers) + body


COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
"""A whole answer as one document."""


def failure(status: int, error: object, **headers: str) -> bytes:
    return whole(status, json.dumps({"error": error}).encode(), **headers)


# Events of the dialect.


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def chunk(
    content: str | None = None, *, finish: str | None = None, usage: object = None, **delta: object
) -> dict[str, object]:
    if content is not None:
        delta["content"] = content
    payload: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    if usage is not None:
        payload["usage"] = usage
    return payload


def text(content: str) -> bytes:
    return event(chunk(content))


def tool(index: int | None = 0, **fields: object) -> bytes:
    """A tool-call fragment; `name` and `arguments` go where they belong."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return event(chunk(tool_calls=[{"index": index, "function": function, **fields}]))


STOP = event(chunk(finish="stop"))
CALLS = event(chunk(finish="tool_calls"))
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}


def trailing(usage: object = USAGE) -> bytes:
    """The chunk that carries usage alone."""
    return event({"object": "chat.completion.chunk", "model": "m-1", "choices": [], "usage": usage})


HELLO = stream(event(chunk("", role="assistant")), text("hel"), text("lo"), STOP, trailing(), DONE)
COUNTED = Usage(input=7, cached=3, output=4)
"""`USAGE` with each token counted once."""

REQUEST = ModelRequest("m", (Message("user", "hi"),))
