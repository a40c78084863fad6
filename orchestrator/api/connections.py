"""Hypercorn's HTTP/1.1 connection as this daemon has it: HTTP/1.1 alone, and nothing that outlives its client.

What an application has to know of hypercorn 0.18:

- A client's departure is told by `http.disconnect` from `receive`, once; sending to a client that is gone does nothing.
  A client that closes only its sending half counts as gone.
- While a client's next request is waiting (pipelining) the server reads nothing, so it sees no departure either.
- Up to 10 pieces of a body wait for an application that does not `receive`; then the connection stands (see `unread`).
- `idle_seconds` run from a connection's start, or an answer's end, to the next whole request head. Afterwards only the
  application watches the time: `read_timeout` would also end requests whose client silently waits for an answer.
"""

from typing import Any, Final, cast

import h11
import structlog
import trio
from hypercorn.config import Config
from hypercorn.events import RawData
from hypercorn.logging import Logger
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from orchestrator.api.errors import unreadable_document
from orchestrator.api.surface import HttpConfig

_log: Final = structlog.get_logger("headrace.http")


class Connection(TCPServer):
    """Hypercorn's connection for HTTP/1.1 alone, which ends with its client.

    As it is, an idle connection that its client has closed would stay until `idle_seconds` are over; one that was
    closed here with a further request unread would stay for ever; and closing would take the sending side away from a
    handler in the middle of a write.
    """

    async def run(self) -> None:
        sock = self.stream.socket
        self._reader = trio.lowlevel.current_task()
        self._reading = trio.CancelScope()
        try:
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
            async with TaskGroup() as tasks:
                self._task_group = tasks
                self.protocol = cast(
                    "Any",
                    _Protocol(
                        self.app,
                        self.config,
                        self.context,
                        tasks,
                        ConnectionState(self.state),
                        False,
                        client,
                        server,
                        self.protocol_send,
                    ),
                )
                await self.idle_task.restart(tasks, self._idle_timeout)
                with self._reading:
                    await self._read_data()
                await self.idle_task.stop()
        except OSError:
            pass  # the client was gone before it was looked at
        finally:
            sock.close()

    async def _close(self) -> None:
        self.stream.socket.close()
        if trio.lowlevel.current_task() is not self._reader:
            self._reading.cancel()
        await trio.lowlevel.checkpoint()


class _Protocol(H11Protocol):
    """HTTP/1.1 that takes no client's offer to go on with something else (HTTP/2, WebSocket).

    A head that cannot be read is answered with a document that says so. An answer of known length leaves in one write,
    head, body and end, where hypercorn makes three.
    """

    _head = b""

    async def _send_h11_event(self, event: Any) -> None:
        try:
            data = self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response) and _has_length(event):
            self._head = data
            return
        data, self._head = self._head + data, b""
        if data:
            await self.send(RawData(data=data))

    async def _send_error_response(self, status_code: int) -> None:
        document = unreadable_document(status_code)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(document)),
            (b"connection", b"close"),
            *self.config.response_headers("h11"),
        ]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=document))
        await self._send_h11_event(h11.EndOfMessage())

    async def _check_protocol(self, event: h11.Request) -> None:
        await trio.lowlevel.checkpoint()

    async def _create_stream(self, request: h11.Request) -> None:
        kept = [(name, value) for name, value in request.headers if name != b"upgrade"]
        if len(kept) < len(request.headers):
            request = h11.Request(
                method=request.method, target=request.target, headers=kept, http_version=request.http_version
            )
        await super()._create_stream(request)


def _has_length(response: h11.Response) -> bool:
    return any(name == b"content-length" for name, _ in response.headers)


class _Log(Logger):
    """What hypercorn has to say, as structured log lines; accesses are not among it."""

    def __init__(self, config: Config) -> None:
        self.access_logger = None
        self.error_logger = None

    async def access(self, *_: Any) -> None:
        return

    async def log(self, level: int, message: str, *args: Any, **kwargs: Any) -> None:
        _log.log(level, "http server", says=message % args if args else message, **kwargs)

    async def critical(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(50, message, *args)

    async def error(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(40, message, *args)

    async def exception(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(40, message, *args, exc_info=True)

    async def warning(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(30, message, *args)

    async def info(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(20, message, *args)

    async def debug(self, message: str, *args: Any, **kwargs: Any) -> None:
        await self.log(10, message, *args)


def hypercorn_config(config: HttpConfig) -> Config:
    """Hypercorn's settings for this surface."""
    hypercorn = Config()
    hypercorn.logger_class = _Log
    hypercorn.include_server_header = False
    hypercorn.h11_max_incomplete_size = config.header_bytes
    hypercorn.keep_alive_timeout = cast("Any", config.idle_seconds)
    hypercorn.keep_alive_max_requests = 1_000_000
    return hypercorn
