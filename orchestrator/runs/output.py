"""What a run's model says, heard while it says it.

It is for people who watch, and kept nowhere: where nobody listens it goes by, and who joins in the middle hears the
rest. The whole reply is in the log when it has ended.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import trio

from agents.messages import Delta, ModelReply, ModelRequest
from agents.port import ModelPort, Priority, Receipt
from orchestrator.views.runs import OutputPiece

MOST_UNHEARD: Final = 65_536
"""Characters that wait for one listener; what is older is left out."""


class Output:
    """What the model of `run` says. Listeners are few, and most runs have none."""

    __slots__ = ("_listeners", "_run")

    def __init__(self, run: str) -> None:
        self._run = run
        self._listeners: tuple[Listener, ...] = ()

    def heard(self, port: ModelPort) -> ModelPort:
        """The port, with what comes of its calls told here."""
        return _HeardPort(self, port)

    @contextmanager
    def listening(self) -> Iterator["Listener"]:
        """Somebody listens inside the block."""
        listener = Listener()
        self._listeners = (*self._listeners, listener)
        try:
            yield listener
        finally:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

    def hear(self, call: str, deltas: Sequence[Delta]) -> None:
        """These came for the call of this key."""
        if not self._listeners:
            return
        for delta in deltas:
            if delta.text or delta.reasoning or delta.reset:
                piece = OutputPiece(
                    run=self._run, call=call, text=delta.text, reasoning=delta.reasoning, reset=delta.reset
                )
                for listener in self._listeners:
                    listener.add(piece)

    def wake(self) -> None:
        """Something else has happened to the run."""
        for listener in self._listeners:
            listener.wake()


class Listener:
    """One who listens, at a pace of its own: what it has not taken is joined, and bounded."""

    __slots__ = ("_bell", "_cut", "_pieces", "_size")

    def __init__(self) -> None:
        self._bell = trio.Event()
        self._pieces: list[OutputPiece] = []
        self._size = 0
        self._cut = False

    def add(self, piece: OutputPiece) -> None:
        if self._size > MOST_UNHEARD:
            self._pieces.clear()
            self._size, self._cut = 0, True
        self._pieces.append(piece)
        self._size += len(piece.text) + len(piece.reasoning)
        self.wake()

    def wake(self) -> None:
        self._bell.set()

    async def wait(self) -> None:
        """Until there is something to take, or something else has happened to the run."""
        await self._bell.wait()
        self._bell = trio.Event()

    def take(self) -> list[OutputPiece]:
        """What came since the last time, neighbours of one call joined."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        joined: list[list[OutputPiece]] = []
        for piece in pieces:
            if joined and joined[-1][0].call == piece.call and not piece.reset:
                joined[-1].append(piece)
            else:
                joined.append([piece])
        taken = [_whole(group, cut=self._cut and at == 0) for at, group in enumerate(joined)]
        self._cut = self._cut and not taken
        return taken


def _whole(group: Sequence[OutputPiece], *, cut: bool) -> OutputPiece:
    first = group[0]
    return OutputPiece(
        run=first.run,
        call=first.call,
        text="".join(piece.text for piece in group),
        reasoning="".join(piece.reasoning for piece in group),
        reset=first.reset,
        cut=cut,
    )


class _HeardPort:
    """A `ModelPort` whose answers are told to an output as they come."""

    __slots__ = ("_output", "_port")

    def __init__(self, output: Output, port: ModelPort) -> None:
        self._output = output
        self._port = port

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        if receipt is not None:
            receipt.tap = partial(self._output.hear, receipt.key)
        return await self._port.call(request, deadline=deadline, priority=priority, receipt=receipt)
