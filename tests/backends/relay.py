"""Programs' own requests, for tests of backends: from JSON text, as a gateway would hand them on."""

import json

import msgspec

from agents.messages import Dialect, ModelReply, ModelRequest, WireEvent, WireRequest
from tests.backends.recorder import Recorder
from tests.backends.upstream import Script, upstream

HI = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
HI_RESPONSES = b'{"model":"m","input":"hi"}'
HI_MESSAGES = b'{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}]}'
HI_EMBEDDINGS = b'{"model":"m","input":["hi","there"]}'


def wired(body: bytes | dict[str, object], dialect: Dialect = "chat") -> ModelRequest:
    """The request in a body."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    model: str = msgspec.json.decode(fields["model"])
    return ModelRequest(model, (), wire=WireRequest(dialect, fields, len(text)))


def events_of(recorder: Recorder) -> list[WireEvent]:
    """What a program gets, in order."""
    return [event for _, batch in recorder.batches for delta in batch for event in delta.wire]


def data_of(recorder: Recorder) -> list[bytes]:
    return [event.data for event in events_of(recorder)]


def tokens_of(recorder: Recorder) -> int:
    """The output tokens that an attempt counts as they come."""
    return sum(delta.tokens for _, batch in recorder.batches for delta in batch)


async def relay(
    script: Script, body: bytes | dict[str, object] = HI, dialect: Dialect = "chat", **options: object
) -> tuple[ModelReply, Recorder]:
    """One program's request to an upstream with that script."""
    recorder = Recorder()
    async with upstream(script) as server, server.connection(**options) as connection:
        return await connection.send(wired(body, dialect), recorder), recorder
