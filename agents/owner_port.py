"""A model port onto one owner: its calls go into the owner's inbox, and their callers wait there."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import trio

from agents.errors import CallerGone
from agents.messages import Delta, ModelReply, ModelRequest
from agents.port import Call, Flow, Inbox, Priority, Receipt

DELTA_BUFFER = 8
"""Batches of deltas that may wait for a slow reader before the upstream read stops."""


class ReplyStream:
    """An answer that arrives in pieces: iterate it for batches of deltas, then ask for the reply."""

    def __init__(self, call: Call, deltas: "trio.MemoryReceiveChannel[tuple[Delta, ...]]") -> None:
        self._call = call
        self._deltas = deltas

    def __aiter__(self) -> AsyncIterator[tuple[Delta, ...]]:
        return self._deltas.__aiter__()

    async def reply(self) -> ModelReply:
        """The whole answer, once the stream has ended; raises the call's error."""
        await self._call.wait()
        return self._call.result()


class OwnerPort:
    """A `ModelPort` onto one owner's inbox, with a flow and a priority of its own."""

    __slots__ = ("_agent", "_flow", "_inbox", "_priority")

    def __init__(self, inbox: Inbox, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = True) -> None:
        self._inbox = inbox
        self._flow = flow
        self._priority = priority
        self._agent = agent

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
        elsewhere: bool = False,
    ) -> ModelReply:
        call = Call(
            request,
            self._flow,
            self._priority if priority is None else priority,
            deadline=deadline,
            agent=self._agent,
            elsewhere=elsewhere,
            key="" if receipt is None else receipt.next_key,
            held=None if receipt is None else receipt.held,
        )
        if receipt is not None:
            receipt.hold(call)
        try:
            try:
                self._inbox.submit_nowait(call)
            except trio.WouldBlock:
                await self._inbox.submit(call)
            await call.wait()
        finally:
            if call.outcome is None:
                self._leave(call)
        return call.result()

    @asynccontextmanager
    async def stream(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        buffer: int = DELTA_BUFFER,
        restartable: bool = True,
        receipt: Receipt | None = None,
        elsewhere: bool = False,
    ) -> AsyncGenerator[ReplyStream, None]:
        """Opens a streamed call; leaving the block early takes the call with it.

        `buffer` is how many batches of deltas may wait for the reader before the upstream read stops; a reader that
        does not understand a reset delta is not `restartable`.
        """
        send, receive = trio.open_memory_channel[tuple[Delta, ...]](buffer)
        call = Call(
            request,
            self._flow,
            self._priority if priority is None else priority,
            deadline=deadline,
            deltas=send,
            restartable=restartable,
            agent=self._agent,
            elsewhere=elsewhere,
            key="" if receipt is None else receipt.next_key,
            held=None if receipt is None else receipt.held,
        )
        if receipt is not None:
            receipt.hold(call)
        try:
            await self._inbox.submit(call)
            yield ReplyStream(call, receive)
        finally:
            if call.outcome is None:
                self._leave(call)
            receive.close()

    def _leave(self, call: Call) -> None:
        call.abandoned = True
        self._inbox.leave(call)
        call.resolve(CallerGone("the caller left before the answer"))
