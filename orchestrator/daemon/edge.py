"""Clients' own calls, counted, so that a daemon that ends takes no new ones and waits for those it has."""

import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from agents.errors import Draining
from agents.messages import ModelReply, ModelRequest
from agents.owner_port import ReplyStream
from agents.port import Flow, Priority, Receipt
from orchestrator.api.call_services import CallPort, Calls


class Edge:
    """Implements `orchestrator.api.call_services.Calls` over another one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._closed = False
        self._none_open = trio.Event()
        self.open = 0

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = False) -> CallPort:
        """A port whose calls are counted. Its calls raise `Draining` once the edge is closed."""
        return _CountedPort(self, self._calls.port(flow, priority, agent=agent))

    def close(self) -> None:
        """Takes no new calls."""
        self._closed = True
        if not self.open:
            self._none_open.set()

    async def drained(self) -> None:
        """Waits until the last call has ended; for after `close`."""
        await self._none_open.wait()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One call, from here to the end of the block."""
        if self._closed:
            raise Draining("the daemon is shutting down and takes no new calls")
        self.open += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        self.open -= 1
        if self._closed and not self.open:
            self._none_open.set()

    def __repr__(self) -> str:
        return f"<Edge {self.open} calls{' closed' if self._closed else ''}>"


class _CountedPort:
    __slots__ = ("_edge", "_port")

    def __init__(self, edge: Edge, port: CallPort) -> None:
        self._edge = edge
        self._port = port

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        with self._edge.counted():
            return await self._port.call(request, deadline=deadline, priority=priority, receipt=receipt)

    @asynccontextmanager
    async def stream(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        restartable: bool = True,
        receipt: Receipt | None = None,
    ) -> AsyncGenerator[ReplyStream, None]:
        with self._edge.counted():
            async with self._port.stream(
                request, deadline=deadline, priority=priority, restartable=restartable, receipt=receipt
            ) as stream:
                yield stream
