"""The gateway benchmark's client: as many connections as asked, each with one request at a time, on bare sockets.

It reads no more of an answer than it must: the head, then the end, by its length or by the last chunk. A client that
parses everything would measure itself.
"""

import re
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import trio
from msgspec import Struct, field

from bench.stub import STAMP

_READ: Final = 65_536
_LENGTH: Final = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CLOSE: Final = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
_STAMPED: Final = re.compile(STAMP.replace(b"%.6f", rb"(\d+\.\d+)"))
_LAST: Final = b"\r\n0\r\n\r\n"


class Measured(Struct):
    """What a number of requests took. Latencies and delays are in seconds, `elapsed` covers the last answer's end.

    `delays` are those of single chunks, from the stub's write to their arrival here; empty where nothing is stamped.
    """

    latencies: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    failed: int = 0
    elapsed: float = 0.0

    def add(self, other: "Measured") -> None:
        """Takes in a further slice of the same cell."""
        self.latencies += other.latencies
        self.delays += other.delays
        self.failed += other.failed
        self.elapsed += other.elapsed


def post(url: str, body: bytes, headers: Sequence[str] = ()) -> bytes:
    """The bytes of a request for a chat completion; `url` is a base URL as SDKs take it, with its `/v1`.

    `headers` are further ones, each as `name: value`.
    """
    parts = urlsplit(url)
    more = "".join(f"{header}\r\n" for header in headers)
    head = (
        f"POST {parts.path.rstrip('/')}/chat/completions HTTP/1.1\r\nhost: {parts.netloc}\r\n"
        f"authorization: Bearer sk-bench\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"{more}\r\n"
    )
    return head.encode() + body


async def load(
    url: str,
    body: bytes,
    *,
    connections: int,
    seconds: float,
    grace: float = 15.0,
    each: int = 1_000_000,
    stagger: float = 0.0,
    headers: Sequence[str] = (),
) -> Measured:
    """Sends `body` again and again over each connection for `seconds`, at most `each` times.

    The connections begin one after the other, all within `stagger` seconds.

    What is under way then may end within `grace` seconds; what does not, and what is not answered by a whole 200,
    counts as failed. Raises `OSError` if nobody listens.
    """
    parts = urlsplit(url)
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    measured = Measured()
    sockets = [await _connect(address) for _ in range(connections)]
    began = time.monotonic()
    with trio.move_on_after(seconds + grace) as scope:
        async with trio.open_nursery() as nursery:
            for number, sock in enumerate(sockets):
                client = _Client(address, sock, post(url, body, headers), measured)
                start = began + stagger * number / connections
                nursery.start_soon(client.run, start, began + seconds, each)
    measured.elapsed = time.monotonic() - began
    if scope.cancelled_caught:
        measured.failed += connections
    return measured


async def _connect(address: tuple[str, int]) -> trio.socket.SocketType:
    sock = trio.socket.socket()
    try:
        sock.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        await sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


class _Client:
    """One connection's requests, one after the other."""

    def __init__(
        self, address: tuple[str, int], sock: trio.socket.SocketType, request: bytes, measured: Measured
    ) -> None:
        self._address = address
        self._sock = sock
        self._request = request
        self._measured = measured

    async def run(self, start: float, until: float, each: int) -> None:
        try:
            await trio.sleep(max(0.0, start - time.monotonic()))
            for _ in range(each):
                began = time.monotonic()
                if began >= until:
                    return
                if not await self._exchange():
                    self._measured.failed += 1
                    self._sock.close()
                    self._sock = await _connect(self._address)
                else:
                    self._measured.latencies.append(time.monotonic() - began)
        finally:
            self._sock.close()

    async def _exchange(self) -> bool:
        """One request and its whole answer; whether it was one. Reconnects where the server closes."""
        try:
            await self._send(self._request)
            received = await self._sock.recv(_READ)
            while received and (body := received.find(b"\r\n\r\n") + 4) < 4:
                received += await self._more()
            if not received.startswith(b"HTTP/1.1 200"):
                return False
            length = _LENGTH.search(received, 0, body)
            if length:
                left = body + int(length[1]) - len(received)
                while left > 0:
                    left -= len(await self._more())
            elif not await self._stream(received):
                return False
            if _CLOSE.search(received, 0, body):
                self._sock.close()
                self._sock = await _connect(self._address)
        except OSError:
            return False
        return True

    async def _send(self, data: bytes) -> None:
        while data:
            data = data[await self._sock.send(data) :]

    async def _more(self) -> bytes:
        data = await self._sock.recv(_READ)
        if not data:
            raise ConnectionResetError("closed in mid-answer")
        return data

    async def _stream(self, part: bytes) -> bool:
        """Reads to the last chunk; whether the stream said that it is whole."""
        done = False
        while True:
            now = time.monotonic()
            done = done or b"[DONE]" in part
            whole_to = part.rfind(b"\n\n") + 2
            for stamp in _STAMPED.findall(part, 0, whole_to):
                self._measured.delays.append(now - float(stamp))
            if part.endswith(_LAST):
                return done
            # a stamp, and the marks of the end, may come in two parts
            part = part[max(whole_to, 2) - 2 :][-1024:] + await self._more()
