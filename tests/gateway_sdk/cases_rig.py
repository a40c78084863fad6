"""A daemon between a scripted upstream and a raw client: what is sent and seen is bytes, on both sides."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct
from openai import AsyncOpenAI

from orchestrator.backends.sse import SSEParser
from orchestrator.daemon.daemon import Daemon
from tests.backends.upstream import Script, Upstream, upstream
from tests.daemon.serving import config, serving

ASK: dict[str, Any] = {"model": "m-1", "messages": [{"role": "user", "content": "hello"}]}
QUICK = "retry = { base = 0.01, throttled_base = 0.01, jitter = 0.0 }\n"
ONCE = "retry = { attempts = 1 }\n"


class Answer(Struct):
    """What a raw client got: `body` is what the framing carried."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def data(self) -> list[bytes]:
        """The data of all server-sent events."""
        parser = SSEParser()
        events = parser.feed(self.body)
        last = parser.finish()
        return [event.data for event in ([*events, last] if last else events)]

    def chunks(self) -> list[Any]:
        """The JSON of all events but the end marker."""
        return [json.loads(data) for data in self.data() if data != b"[DONE]"]

    def deltas(self, field: str = "content") -> str:
        """What the first choice's deltas say in one of their fields."""
        choices = [chunk["choices"][0]["delta"] for chunk in self.chunks() if chunk.get("choices")]
        return "".join(delta.get(field) or "" for delta in choices)

    def finishes(self) -> list[str]:
        """The reasons of an end that any chunk gives."""
        found = [choice.get("finish_reason") for chunk in self.chunks() for choice in chunk.get("choices") or ()]
        return [reason for reason in found if reason]


class Between(Struct):
    """The daemon, its upstream, and ways to ask."""

    daemon: Daemon
    upstream: Upstream
    url: str

    async def chat(self, **more: Any) -> Answer:
        """One chat completion, in one piece unless `stream` is given."""
        return await self.post("/v1/chat/completions", json.dumps({**ASK, **more}).encode())

    async def post(self, path: str, body: bytes, headers: str = "") -> Answer:
        stream = await self.connect()
        async with stream:
            await stream.send_all(post(path, body, headers))
            return await read_answer(stream)

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", int(self.url.rpartition(":")[2]))

    def sdk(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0)

    def held(self) -> int:
        """Calls in the daemon, waiting or in flight."""
        return sum(len(owner._open) for owner in self.daemon.owners.by_name.values())


@asynccontextmanager
async def between(folder: Path, *scripts: Script, backend: str = QUICK) -> AsyncGenerator[Between, None]:
    """A daemon whose one backend is an upstream that answers by these scripts."""
    async with upstream(*scripts) as server:
        text = f'[backends.up]\nkind = "openai"\nbase_url = "{server.base_url}"\n{backend}'
        async with serving(config(folder, text)) as served:
            yield Between(served.daemon, server, served.url)


def post(path: str, body: bytes, headers: str = "") -> bytes:
    """A request; it is the connection's last."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n"
    return f"{head}{headers}content-length: {len(body)}\r\n\r\n".encode() + body


async def read_answer(stream: trio.SocketStream) -> Answer:
    """The whole answer on a connection that the server then closes."""
    received = b""
    async for part in stream:
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unframed(body)
    return Answer(int(first.split()[1]), headers, body)


def _unframed(body: bytes) -> bytes:
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        found, body = found + body[:length], body[length + 2 :]
    return found
