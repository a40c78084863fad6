"""The slots of one endpoint: long-lived workers, each with a connection of its own.

The owner decides how many calls are in flight; a slot only carries one out. Slots start when they are first needed, and
idle ones wait in a stack: the one used last goes next, so that few connections are kept warm rather than all a little.

Attempts go out in the order in which the owner started them, although trio runs tasks that wake at the same moment in
an order of its own: whichever slot runs first takes the attempt that has waited longest. What is in a server can no
longer be ordered, so the fair order must not be lost on the way there.

One cancel scope serves all attempts of a slot, since making one costs as much as a task switch. An attempt that is cut
short takes the scope with it, and the slot goes on in a new one. A scope that was cancelled too late, when its attempt
was over, ends at the slot's next wait, where no attempt can be lost.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio

from agents.port import Call
from orchestrator.attempt import Attempt
from orchestrator.backends.base import Connection
from orchestrator.backends.tracing import TRACEPARENT

CLOSE_GRACE = 5.0
"""Seconds that closing a connection may take when its slot ends."""


class Slots:
    """Starts attempts on idle slots, or on new ones. `started` counts the slots there are; `trace` says the trace
    context of the request that goes out for a call now.
    """

    __slots__ = ("_connect", "_due", "_idle", "_name", "_nursery", "_trace", "started")

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        nursery: trio.Nursery,
        trace: Callable[[Call], str] | None = None,
    ) -> None:
        self._name = name
        self._connect = connect
        self._nursery = nursery
        self._trace = trace
        self._idle: list[trio.lowlevel.Task] = []
        self._due: deque[Attempt] = deque()
        """One for each slot that was woken or started for it and has not run yet."""
        self.started = 0

    def start(self, attempt: Attempt) -> None:
        """Runs the attempt; its outcome comes as a note."""
        self._due.append(attempt)
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            self.started += 1
            self._nursery.start_soon(self._work, name=f"slot {self._name}/{self.started}")

    async def _work(self) -> None:
        connection: Connection | None = None
        attempt: Attempt | None = self._due.popleft()
        try:
            while True:
                with trio.CancelScope() as scope:
                    while True:
                        if attempt is None:
                            attempt = await self._next()
                        this, attempt = attempt, None
                        if connection is None:
                            connection = self._open(this)
                        if self._trace is not None:
                            TRACEPARENT.set(self._trace(this.call))
                        if connection is not None:
                            await this.run(connection, scope)
        finally:
            if connection is not None:
                await _close(connection)

    def _open(self, attempt: Attempt) -> Connection | None:
        """A connection for the slot; an adapter that cannot even make one fails the attempt, not the owner."""
        try:
            return self._connect()
        except Exception as error:
            attempt.fail(error)
            return None

    async def _next(self) -> Attempt:
        idle, task = self._idle, trio.lowlevel.current_task()

        def stop_waiting(_: Any) -> trio.lowlevel.Abort:
            idle.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        idle.append(task)
        await trio.lowlevel.wait_task_rescheduled(stop_waiting)
        return self._due.popleft()

    def __repr__(self) -> str:
        return f"<Slots {self._name} idle={len(self._idle)} of {self.started}>"


async def _close(connection: Connection) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_GRACE), suppress(Exception):
        # the slot ends and its socket with it; what an adapter still has to say about that helps nobody
        await connection.aclose()
