"""Clients of the simulated provider over HTTP: a decent one, and bare bytes on a socket."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import trio
import trio.testing

from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimProvider
from orchestrator.backends.simulated.server import serve_simulated

FAST = SimLatency(first_token=0.0, input_rate=1e9, output_rate=1e6, spread=0.0)


@asynccontextmanager
async def served(config: SimConfig | None = None) -> AsyncIterator[tuple[SimProvider, httpx2.AsyncClient]]:
    """A provider over a socket, and a client that goes to it."""
    start = trio.current_time()
    provider = SimProvider(config or SimConfig(latency=FAST), clock=lambda: trio.current_time() - start)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(serve_simulated, provider)
            async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
                yield provider, client
            nursery.cancel_scope.cancel()


def body(**more: Any) -> dict[str, Any]:
    return {"model": "sim", "messages": [{"role": "user", "content": "Grüße an 日本 🎉"}], "max_tokens": 12, **more}


def chunks(text: str) -> list[Any]:
    """The decoded events of a stream; it has to end with DONE."""
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


@asynccontextmanager
async def raw(client: httpx2.AsyncClient, data: bytes = b"") -> AsyncIterator[trio.SocketStream]:
    """A bare connection, with a small buffer for what comes, on which `data` has been sent."""
    sock = trio.socket.socket()
    sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 16_384)
    await sock.connect((client.base_url.host, client.base_url.port))
    async with trio.SocketStream(sock) as stream:
        await stream.send_all(data)
        yield stream


def post(**more: Any) -> bytes:
    """A chat request as bytes."""
    content = json.dumps(body(**more)).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(content) + content


async def read_all(stream: trio.SocketStream) -> bytes:
    return b"".join([data async for data in stream])


async def until(condition: Callable[[], bool]) -> None:
    """Gives the server the moment it needs to notice something that happened on a socket."""
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)
