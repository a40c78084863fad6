"""What Anthropic's API puts on the wire, as bytes: events and whole messages, as its reference shows them."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from agents.errors import ModelError
from agents.messages import Dialect, Message, ModelReply, ModelRequest, Usage, WireEvent, WireRequest
from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig, AnthropicConnection
from tests.backends.payloads import stream
from tests.backends.recorder import Recorder
from tests.backends.upstream import Received, Script, Upstream, upstream

REQUEST = ModelRequest("m", (Message("user", "hi"),))


def event(name: str, **members: object) -> bytes:
    """One event, with the blank after `data:` that the API writes."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.dumps({"type": name, **members}).encode())


def start(**usage: object) -> bytes:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage or USAGE_AT_START,
    }
    return event("message_start", message=message)


def block(index: int, kind: str = "text", **members: object) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind, **members})


def text(content: str, index: int = 0) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "text_delta", "text": content})


def thinking(content: str, index: int = 0) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": content})


def fragment(partial_json: str, index: int = 0) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": partial_json})


def tool(index: int, call_id: str = "toolu_1", name: str = "look") -> bytes:
    return block(index, "tool_use", id=call_id, name=name, input={})


def block_stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def delta(stop_reason: str | None = "end_turn", **usage: object) -> bytes:
    return event(
        "message_delta",
        delta={"stop_reason": stop_reason, "stop_sequence": None},
        usage=usage or {"output_tokens": 4},
    )


def error(kind: str, message: str = "Sorry", **details: object) -> bytes:
    inside: dict[str, object] = {"type": kind, "message": message}
    if details:
        inside["details"] = details
    return event("error", error=inside, request_id="req_1")


USAGE_AT_START = {
    "input_tokens": 7,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 3,
    "output_tokens": 1,
}
COUNTED = Usage(input=7, cached=3, cache_write=2, output=4)
"""The usage of `HELLO`, each token counted once."""

PING = event("ping")
STOP = event("message_stop")
OPENING = (start(), block(0, text=""), PING)
ENDING = (block_stop(), delta(), STOP)
HELLO = stream(*OPENING, text("hel"), text("lo"), *ENDING)


def document(*content: dict[str, object], stop_reason: str | None = "end_turn", **usage: object) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage or {**USAGE_AT_START, "output_tokens": 4},
    }


# Asking.


def backend_at(server: Upstream, **options: Any) -> AnthropicBackend:
    environ = options.pop("environ", {})
    return AnthropicBackend(AnthropicConfig(name="test", base_url=server.base_url, **options), environ=environ)


@asynccontextmanager
async def connection_to(server: Upstream, **options: Any) -> AsyncGenerator[AnthropicConnection, None]:
    """A connection of a backend of its own, closed at the block's end."""
    connection = backend_at(server, **options).connect()
    try:
        yield connection
    finally:
        await connection.aclose()


async def ask(script: Script, request: ModelRequest = REQUEST, **options: Any) -> tuple[ModelReply, Recorder]:
    """One request to an upstream with that script."""
    recorder = Recorder()
    async with upstream(script) as server, connection_to(server, **options) as connection:
        return await connection.send(request, recorder), recorder


async def fail(script: Script, request: ModelRequest = REQUEST, **options: Any) -> tuple[ModelError, Recorder]:
    """The error of one request to an upstream with that script."""
    recorder = Recorder()
    async with upstream(script) as server, connection_to(server, **options) as connection:
        with pytest.raises(ModelError) as caught:
            await connection.send(request, recorder)
    return caught.value, recorder


# Programs' own requests.

MESSAGES = b'{"model": "opus", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100, "odd": 1.50}'
CHAT = b'{"model": "opus", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]}'


def wire(body: bytes = MESSAGES, dialect: Dialect = "messages", **headers: str) -> ModelRequest:
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ModelRequest("opus", (), wire=WireRequest(dialect, fields, len(body), named))


async def relay(script: Script, request: ModelRequest, **options: Any) -> tuple[ModelReply, Recorder, Received]:
    recorder = Recorder()
    async with upstream(script) as server, connection_to(server, **options) as connection:
        reply = await connection.send(request, recorder)
    return reply, recorder, server.received[0]


def events_of(recorder: Recorder) -> list[WireEvent]:
    return [event for _, batch in recorder.batches for one in batch for event in one.wire]
