"""One try of a call at one endpoint: four clocks, progress, and one way to end.

| clock   | runs                                             | its error        | whose fault |
|---------|--------------------------------------------------|------------------|-------------|
| queue   | in the owner, until dispatch (`Call.deadline`)   | `QueueTimeout`   | nobody's    |
| connect | from dispatch until a connection stands          | `ConnectTimeout` | provider's  |
| silence | between two signs of life on the connection      | `SilenceTimeout` | provider's  |
| whole   | from dispatch to the last byte                   | `CallTimeout`    | nobody's    |

One cancel scope serves the last three: its deadline is always the nearest of them. While a slow reader holds the
stream up, the silence clock stands still, since the provider is not the one who is silent.

The attempt never talks to the owner directly. It writes down what happened and puts its call on the owner's notes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import trio
from msgspec import Struct

from agents.errors import (
    CallerGone,
    CallTimeout,
    ConnectTimeout,
    InvalidLimits,
    ModelError,
    OwnerClosed,
    SilenceTimeout,
    Unavailable,
)
from agents.messages import Delta, ModelReply, Usage
from agents.port import Call
from orchestrator.backends.base import Connection
from orchestrator.policy.feedback import Reading

RESET = (Delta(reset=True),)


class Clocks(Struct, frozen=True):
    """How long an attempt may take, in seconds; `math.inf` turns a clock off."""

    connect: float = 10.0
    silence: float = 120.0
    whole: float = 1800.0

    def __post_init__(self) -> None:
        for field in ("connect", "silence", "whole"):
            if not getattr(self, field) > 0:
                raise InvalidLimits(f"clocks.{field}", "must be a number of seconds above 0, or infinite")


class Note(Protocol):
    """Puts a call on its owner's list; `ring=False` does not wake the owner for it."""

    def __call__(self, call: Call, *, ring: bool = True) -> None: ...


class Attempt:
    """Implements `orchestrator.backends.base.Progress`. The owner reads its public fields when it comes to the note.

    Times are on trio's clock, None while the thing has not happened. `streamed` counts output tokens as they come:
    one for each delta, corrected by usage once that is known. `outcome` is set exactly once, at the end.
    """

    __slots__ = (
        "_clocks",
        "_connected",
        "_next_touch",
        "_note",
        "_scope",
        "_whole",
        "aborted",
        "call",
        "delivered",
        "endpoint",
        "first_token_at",
        "headers_at",
        "outcome",
        "readings",
        "started_at",
        "streamed",
        "usage_so_far",
        "written_at",
    )

    def __init__(self, call: Call, endpoint: str, clocks: Clocks, note: Note, *, now: float, delivered: bool) -> None:
        self.call = call
        self.endpoint = endpoint
        self.started_at = now
        self.delivered = delivered
        self.written_at: float | None = None
        self.headers_at: float | None = None
        self.first_token_at: float | None = None
        self.streamed = 0
        self.usage_so_far: Usage | None = None
        self.readings: Sequence[Reading] = ()
        self.outcome: ModelReply | ModelError | None = None
        self.aborted: Literal["", "caller", "owner"] = ""
        self._clocks = clocks
        self._note = note
        self._connected = False
        self._whole = min(now + clocks.whole, call.deadline)
        self._scope = trio.CancelScope(deadline=min(now + clocks.connect, self._whole))
        self._next_touch = 0.0

    def abort(self, why: Literal["caller", "owner"]) -> None:
        """Cancels the request on the wire; the outcome follows as a note. Idempotent."""
        if self.outcome is None and not self.aborted:
            self.aborted = why
            self._scope.cancel()

    async def run(self, connection: Connection) -> None:
        """Sends the request and notes the outcome, whatever it is. Only the slot's own cancellation passes through."""
        outcome: ModelReply | ModelError | None = None
        try:
            with self._scope:
                if self.delivered:
                    await self._deliver(RESET)
                outcome = await connection.send(self.call.request, self)
        except ModelError as error:
            outcome = error
        except Exception as error:  # an adapter's fault must not take the owner down
            outcome = Unavailable(f"{self.endpoint}: the adapter failed: {type(error).__name__}: {error}")
            outcome.__cause__ = error
        finally:
            # Without an outcome the scope was cancelled by a clock or an abort, or the slot itself is being cancelled.
            self.outcome = outcome or self._cut_short()
            self._note(self.call)

    def _cut_short(self) -> ModelError:
        usage, endpoint, clocks = self.usage_so_far, self.endpoint, self._clocks
        if self.aborted == "caller" or self.call.abandoned:
            return CallerGone("the caller left before the answer", usage=usage)
        if self.aborted == "owner" or not self._scope.cancelled_caught:
            return OwnerClosed(f"{endpoint}: the backend's owner ended before the answer", usage=usage)
        if trio.current_time() >= self._whole:
            seconds = self._whole - self.started_at
            return CallTimeout(f"{endpoint}: no complete answer within {seconds:g} s", usage=usage)
        if not self._connected:
            return ConnectTimeout(f"{endpoint}: no connection within {clocks.connect:g} s", worked=False)
        return SilenceTimeout(f"{endpoint}: nothing arrived for {clocks.silence:g} s", usage=usage)

    # Progress, called by the connection

    def connected(self) -> None:
        self._connected = True
        self._touch(trio.current_time())

    def written(self) -> None:
        self.written_at = trio.current_time()

    def headers(self, readings: Sequence[Reading]) -> None:
        self.headers_at = now = trio.current_time()
        self.readings = readings
        self._touch(now)
        self._note(self.call)

    def alive(self) -> None:
        self._touch(trio.current_time())

    def usage(self, usage: Usage) -> None:
        self.usage_so_far = usage
        self._note(self.call, ring=False)

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        now = trio.current_time()
        self.streamed += len(deltas)
        if self.first_token_at is None:
            self.first_token_at = now
            self._note(self.call)
        else:
            self._note(self.call, ring=False)
        if self.call.deltas is None:
            self._touch(now)
        else:
            await self._deliver(tuple(deltas))

    async def _deliver(self, deltas: tuple[Delta, ...]) -> None:
        channel = self.call.deltas
        if channel is None:
            return
        try:
            try:
                channel.send_nowait(deltas)
            except trio.WouldBlock:
                self._scope.deadline = self._whole
                await channel.send(deltas)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise CallerGone("the reader of the stream left", usage=self.usage_so_far) from None
        self.delivered = True
        self._next_touch = 0.0
        self._touch(trio.current_time())

    def _touch(self, now: float) -> None:
        """Starts the silence clock again. Moving a deadline costs more than reading the clock, so not every time:

        the clock runs up to 1/64 late, never early.
        """
        if now < self._next_touch:
            return
        silence = self._clocks.silence
        if silence < math.inf:
            self._next_touch = now + silence / 64
            self._scope.deadline = min(self._next_touch + silence, self._whole)
        else:
            self._next_touch = math.inf
            self._scope.deadline = self._whole


async def slot(
    connect: Callable[[], Connection], work: "trio.MemoryReceiveChannel[Attempt]", *, grace: float = 5.0
) -> None:
    """A long-lived worker with a connection of its own: runs one attempt after the other until its work ends.

    `grace` bounds in seconds how long closing the connection may take when the slot is cancelled.
    """
    connection = connect()
    try:
        async for attempt in work:
            await attempt.run(connection)
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + grace):
            await connection.aclose()
