"""The way into an owner: a small bounded channel for submits, a deque of notes, and one bell.

Only submits cross the channel, so that a full inbox holds back new work and nothing else. Attempts and leavers append
notes synchronously: each call is in the deque at most once, so the deque is bounded by the calls the owner holds, and
a note about an ended attempt never waits behind blocked submits.
"""

import math
import sys
from collections import deque
from collections.abc import Iterator

import trio

from agents.errors import OwnerClosed
from agents.port import Call

INBOX_SIZE = 256
"""Submits that may wait in the channel; further callers wait in `submit`, outside the owner."""


class CallInbox:
    """Implements `agents.port.Inbox`; the owner is its only reader."""

    def __init__(self, name: str, size: int = INBOX_SIZE) -> None:
        self._name = name
        self._send, self._receive = trio.open_memory_channel[Call](size)
        self._notes: deque[Call] = deque()
        self._noted: set[Call] = set()
        self._bell: trio.Event | None = None
        self._more = False
        self._broken = False
        self.closed = False

    def submit_nowait(self, call: Call) -> None:
        if self.closed:
            raise self._closed_error()
        self._send.send_nowait(call)
        if self._bell is not None:
            self._bell.set()

    async def submit(self, call: Call) -> None:
        if self.closed:
            raise self._closed_error()
        try:
            await self._send.send(call)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._closed_error() from None
        self.ring()

    def leave(self, call: Call) -> None:
        if call.ticket is not None:
            self.note(call)

    def note(self, call: Call, *, ring: bool = True) -> None:
        """Puts the call on the owner's list of things to look at; `ring=False` leaves that to its next turn."""
        if call not in self._noted:
            self._noted.add(call)
            self._notes.append(call)
        if ring and self._bell is not None:
            self._bell.set()

    def ring(self) -> None:
        """Wakes the owner if it sleeps."""
        if self._bell is not None:
            self._bell.set()

    def take_notes(self) -> Iterator[Call]:
        """All notes there are, oldest first; a call noted again meanwhile comes again."""
        notes, noted = self._notes, self._noted
        while notes:
            call = notes.popleft()
            noted.discard(call)
            yield call

    def take_submits(self, at_most: int) -> Iterator[Call]:
        """Up to `at_most` submitted calls in arrival order."""
        receive = self._receive.receive_nowait
        self._more = False
        try:
            for _ in range(at_most):
                yield receive()
        except (trio.WouldBlock, trio.EndOfChannel):
            return
        self._more = True

    async def wait(self, until: float) -> None:
        """Sleeps until something arrives or trio's clock reaches `until`; always a checkpoint.

        To be called in the same turn as `take_submits`, with no checkpoint between.
        """
        if self._notes or self._more:
            await trio.lowlevel.checkpoint()
            return
        self._bell = trio.Event()
        try:
            if until == math.inf:
                await self._bell.wait()
            else:
                with trio.CancelScope(deadline=until):
                    await self._bell.wait()
        finally:
            self._bell = None

    def close(self) -> None:
        """Refuses new submits. What is in the channel can still be taken; callers blocked in `submit` get an error."""
        self.closed = True

    def break_off(self) -> list[Call]:
        """Closes both ends and returns the calls that were submitted but never taken. Idempotent."""
        self.closed = True
        if self._broken:
            return []
        self._broken = True
        left = list(self.take_submits(at_most=sys.maxsize))
        self._receive.close()
        self._send.close()
        return left

    def waiting(self) -> int:
        """Submits in the channel and callers blocked before it."""
        statistics = self._receive.statistics()
        return statistics.current_buffer_used + statistics.tasks_waiting_send

    def _closed_error(self) -> OwnerClosed:
        return OwnerClosed(f"backend {self._name}: it is shutting down and takes no new calls")

    def __repr__(self) -> str:
        return f"<CallInbox {self._name} waiting={self.waiting()} notes={len(self._notes)}>"
