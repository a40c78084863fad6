"""An OpenAI-compatible server that costs next to nothing: the far end of the gateway benchmark.

Answers stand in memory before the first request; a request is searched for the few words that matter and never
decoded. A streamed answer has as many chunks as the request's `max_tokens` says, and leaves in one write; with a rate,
chunk after chunk at that rate, each with the moment at which it left. asyncio's protocols are used instead of trio
streams because they need no task per connection, and what this server takes is missing from what it measures.

    python -m bench.stub [--rate CHUNKS_PER_SECOND]

prints its base URL and serves on loopback until it is ended.
"""

import argparse
import asyncio
import contextlib
import re
import time
from functools import lru_cache
from typing import Final

import msgspec

CHUNKS: Final = 100
"""Chunks of a streamed answer whose request bounds nothing."""

STAMP: Final = b"@%.6f@"
"""The moment a paced chunk left, in seconds of the monotonic clock, which all processes of a machine share."""

_LENGTH: Final = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_STREAM: Final = re.compile(rb'"stream":\s*true')
_BOUND: Final = re.compile(rb'"max_(?:completion_)?tokens":\s*(\d+)')
_USAGE_ASKED: Final = re.compile(rb'"include_usage":\s*true')
_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_LAST: Final = b"0\r\n\r\n"


def _with_length(document: object) -> bytes:
    body = msgspec.json.encode(document)
    return _JSON_HEAD % len(body) + body


def _framed(data: bytes) -> bytes:
    """One chunk of the transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(choices: list[dict[str, object]], **more: object) -> bytes:
    chunk = {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    return b"data: " + msgspec.json.encode({**chunk, "choices": choices, **more}) + b"\n\n"


def _delta(delta: dict[str, str], finish: str | None = None) -> bytes:
    return _event([{"index": 0, "delta": delta, "finish_reason": finish}])


def _usage(chunks: int) -> dict[str, int]:
    return {"prompt_tokens": 20, "completion_tokens": chunks, "total_tokens": 20 + chunks}


def _end(chunks: int, usage: bool) -> bytes:
    told = _event([], usage=_usage(chunks)) if usage else b""
    return _delta({}, "stop") + told + b"data: [DONE]\n\n"


@lru_cache
def whole(chunks: int) -> bytes:
    """A whole answer of so many tokens, head and body."""
    message = {"role": "assistant", "content": " word" * chunks}
    return _with_length(
        {
            "id": "chatcmpl-stub",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": _usage(chunks),
        }
    )


@lru_cache
def streamed(chunks: int, usage: bool) -> bytes:
    """A streamed answer of so many chunks, each framed by itself, as a server sends it that has them one by one."""
    events = [_delta({"role": "assistant", "content": ""}), *[_delta({"content": " word"})] * chunks]
    return _STREAM_HEAD + b"".join(map(_framed, events)) + _framed(_end(chunks, usage)) + _LAST


_MODELS: Final = _with_length(
    {"object": "list", "data": [{"id": "stub", "object": "model", "created": 1, "owned_by": "stub"}]}
)
_PACED_HEAD, _PACED_TAIL = _delta({"content": "STAMP"}).split(b"STAMP")


class StubProtocol(asyncio.Protocol):
    """One connection. Requests are answered in order; one that comes while a paced answer runs is not expected."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._received = b""
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n") + 4) > 3:
            length = _LENGTH.search(self._received, 0, end)
            end += int(length[1]) if length else 0
            if len(self._received) < end:
                return
            request, self._received = self._received[:end], self._received[end:]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if request.startswith(b"GET"):
            self._transport.write(_MODELS)
            return
        bound = _BOUND.search(request)
        chunks = int(bound[1]) if bound else CHUNKS
        if not _STREAM.search(request):
            self._transport.write(whole(chunks))
            return
        usage = _USAGE_ASKED.search(request) is not None
        if not self._rate:
            self._transport.write(streamed(chunks, usage))
            return
        self._transport.write(_STREAM_HEAD + _framed(_delta({"role": "assistant", "content": ""})))
        self._pace(chunks, asyncio.get_running_loop().time(), _framed(_end(chunks, usage)) + _LAST)

    def _pace(self, left: int, due: float, end: bytes) -> None:
        """Writes what is due and calls itself for the rest; lateness is never passed on to later chunks."""
        if not left:
            self._transport.write(end)
            return
        self._transport.write(_framed(_PACED_HEAD + STAMP % time.monotonic() + _PACED_TAIL))
        due += 1 / self._rate
        self._timer = asyncio.get_running_loop().call_at(due, self._pace, left - 1, due, end)


async def serve(rate: float = 0.0) -> None:
    """Serves on a free port of loopback until cancelled, and prints the base URL once it listens."""
    server = await asyncio.get_running_loop().create_server(lambda: StubProtocol(rate), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser(prog="python -m bench.stub", description="A stub of an OpenAI-compatible server.")
    parser.add_argument("--rate", type=float, default=0.0, help="chunks a second of a stream; 0: all at once")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args().rate))


if __name__ == "__main__":
    main()
