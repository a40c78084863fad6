"""The HTTP server under the application: the only module that knows which one it is.

It is hypercorn's HTTP/1.1 connection on trio, one task group per connection, over sockets that are opened and accepted
here. Hypercorn's own worker is not used, for what it does at the end: it writes inside a shield, so one client that
does not read its stream keeps the worker from ever ending. Here every open socket is known, and closing it ends such a
write. What else differs: connections are bounded, an error in one connection ends that connection alone, neither HTTP/2
nor WebSocket is spoken, and there is no lifespan protocol.

What an application has to know of hypercorn 0.18:

- A client's departure is told by `http.disconnect` from `receive`, once; sending to a client that is gone does nothing.
  A client that closes only its sending half counts as gone.
- While a client's next request is waiting (pipelining) the server reads nothing, so it sees no departure either.
- Up to 10 pieces of a body wait for an application that does not `receive`; then the connection stands (see `unread`).
- `idle_seconds` run from a connection's start, or an answer's end, to the next whole request head. Afterwards only the
  application watches the time: `read_timeout` would also end requests whose client silently waits for an answer.

The end: when `closing` is set nothing more is accepted, idle connections are closed, others after their answer. What is
still open after the grace is closed as it is, and its handlers are cancelled. Cancelling does so at once.
"""

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import h11
import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import RawData
from hypercorn.logging import Logger
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr
from starlette.types import ASGIApp

from agents.errors import HeadraceError
from orchestrator.api.errors import unreadable_document
from orchestrator.api.surface import HttpConfig
from orchestrator.api.unread import CUT

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = structlog.get_logger("headrace.http")


class CannotListen(HeadraceError):
    """The address cannot be listened on; the message says why."""


async def listen(config: HttpConfig) -> list[trio.SocketListener]:
    """Opens the sockets, before anything else is started. Raises `CannotListen`."""
    try:
        return await trio.open_tcp_listeners(config.port, host=config.host, backlog=config.backlog)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CannotListen(f"cannot listen on {address(config.host, config.port)}: {why.lower()}") from None


@contextmanager
def closing_listeners(listeners: Sequence[trio.SocketListener]) -> Iterator[Sequence[trio.SocketListener]]:
    """Closes them behind the block, whether they were served or not."""
    try:
        yield listeners
    finally:
        for listener in listeners:
            listener.socket.close()


async def serve_http(
    app: ASGIApp,
    config: HttpConfig,
    *,
    closing: trio.Event,
    listeners: Sequence[trio.SocketListener] | None = None,
    on_connection: Callable[[int], None] | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until `closing` is set and all is answered, or the grace is over. Starts with the URLs it listens on.

    Listens where `config` says, unless given `listeners`, which it closes at the end. Installs no signal handlers.
    `on_connection` is told of each connection that comes (1) or goes (-1).
    Raises `CannotListen`.
    """
    own = await listen(config) if listeners is None else list(listeners)
    await _Server(app, config, own, on_connection or _nobody).run(closing, task_status)


def urls_of(listeners: Sequence[trio.SocketListener]) -> list[str]:
    """Where they are reached."""
    return [_url(listener) for listener in listeners]


def address(host: str, port: int) -> str:
    """`host:port`, with brackets where an address has colons itself."""
    return f"[{host}]:{port}" if ":" in host.strip("[]") else f"{host}:{port}"


def _nobody(change: int) -> None:
    """Wants to know."""


class _Server:
    def __init__(
        self,
        app: ASGIApp,
        config: HttpConfig,
        listeners: Sequence[trio.SocketListener],
        on_connection: Callable[[int], None],
    ) -> None:
        self._app = ASGIWrapper(cast("Any", app))
        self._config = config
        self._listeners = listeners
        self._on_connection = on_connection
        self._hypercorn = _hypercorn_config(config)
        self._context = WorkerContext(None)
        self._room = trio.Semaphore(config.connections)
        self._open: set[trio.SocketStream] = set()
        self._all_closed = trio.Event()

    async def run(self, closing: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        async with trio.open_nursery() as connections:
            try:
                async with trio.open_nursery() as accepting:
                    for listener in self._listeners:
                        accepting.start_soon(self._accept, listener, connections)
                    task_status.started(urls_of(self._listeners))
                    await closing.wait()
                    accepting.cancel_scope.cancel()
                await self._end()
            finally:
                for listener in self._listeners:
                    listener.socket.close()
                for stream in self._open:
                    stream.socket.close()
                connections.cancel_scope.cancel()

    async def _accept(self, listener: trio.SocketListener, connections: trio.Nursery) -> None:
        while True:
            await self._room.acquire()
            try:
                stream = await listener.accept()
            except BaseException as error:
                self._room.release()
                if not isinstance(error, OSError) or error.errno not in NO_DESCRIPTORS:
                    raise
                _log.error("cannot accept a connection", why=error.strerror)
                await trio.sleep(0.1)
                continue
            self._open.add(stream)
            self._on_connection(1)
            connections.start_soon(self._serve, stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        state = cast("LifespanState", {CUT: stream.socket.close})
        try:
            await _Connection(self._app, self._hypercorn, self._context, state, cast("Any", stream)).run()
        except* Exception as group:
            _log.error("connection failed", exc_info=group)
        finally:
            stream.socket.close()
            self._room.release()
            self._open.discard(stream)
            self._on_connection(-1)
            if not self._open:
                self._all_closed.set()

    async def _end(self) -> None:
        for listener in self._listeners:
            listener.socket.close()
        await self._context.terminated.set()
        with trio.move_on_after(self._config.grace_seconds):
            while self._open:
                self._all_closed = trio.Event()
                await self._all_closed.wait()


class _Connection(TCPServer):
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


def _hypercorn_config(config: HttpConfig) -> Config:
    hypercorn = Config()
    hypercorn.logger_class = _Log
    hypercorn.include_server_header = False
    hypercorn.h11_max_incomplete_size = config.header_bytes
    hypercorn.keep_alive_timeout = cast("Any", config.idle_seconds)
    hypercorn.keep_alive_max_requests = 1_000_000
    return hypercorn


def _url(listener: trio.SocketListener) -> str:
    name = listener.socket.getsockname()
    if listener.socket.family == socket.AF_UNIX:
        return f"unix:{name}"
    return f"http://{address(name[0], name[1])}"
