"""The HTTP server under the application: with `connections`, the only module that knows which one it is.

It is hypercorn's HTTP/1.1 connection on trio, one task group per connection, over sockets that are opened and accepted
here. Hypercorn's own worker is not used, for what it does at the end: it writes inside a shield, so one client that
does not read its stream keeps the worker from ever ending. Here every open socket is known, and closing it ends such a
write. What else differs: connections are bounded, an error in one connection ends that connection alone, neither HTTP/2
nor WebSocket is spoken, and there is no lifespan protocol.

The end: when `closing` is set nothing more is accepted, idle connections are closed, others after their answer. What is
still open after the grace is closed as it is, and its handlers are cancelled. Cancelling does so at once.
"""

import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import LifespanState
from starlette.types import ASGIApp

from agents.errors import HeadraceError
from orchestrator.api.connections import Connection, hypercorn_config
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
        self._hypercorn = hypercorn_config(config)
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
            await Connection(self._app, self._hypercorn, self._context, state, cast("Any", stream)).run()
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


def _url(listener: trio.SocketListener) -> str:
    name = listener.socket.getsockname()
    if listener.socket.family == socket.AF_UNIX:
        return f"unix:{name}"
    return f"http://{address(name[0], name[1])}"
