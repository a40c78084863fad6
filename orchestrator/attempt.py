"""One try of a call at one endpoint: four clocks, progress, and one way to end.

| clock   | runs                                             | its error        | whose fault |
|---------|--------------------------------------------------|------------------|-------------|
| queue   | in the owner, until dispatch (`Call.deadline`)   | `QueueTimeout`   | nobody's    |
| connect | from dispatch until a connection stands          | `ConnectTimeout` | provider's  |
| silence | between two signs of life on the connection      | `SilenceTimeout` | provider's  |
| whole   | from dispatch to the last byte                   | `CallTimeout`    | nobody's    |

The attempt only writes down when it last saw a sign of life; its owner, which wakes up at known times anyway, looks at
`due` when the nearest clock may have run out, and calls `expire`. So a token costs no timer. While a slow reader holds
the stream up, the silence clock stands still, since the provider is not the one who is silent.

The attempt never talks to the owner directly. It writes down what happened and puts its call on the owner's notes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

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
    as a rule one for each delta, corrected by usage once that is known. `outcome` is set exactly once, at the end.
    """

    __slots__ = (
        "_alive_at",
        "_clocks",
        "_connected",
        "_cut_short",
        "_note",
        "_now",
        "_scope",
        "_whole_until",
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

    def __init__(
        self,
        call: Call,
        endpoint: str,
        clocks: Clocks,
        note: Note,
        clock: Callable[[], float],
        *,
        now: float,
        delivered: bool,
    ) -> None:
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
        self._clocks = clocks
        self._note = note
        self._connected = False
        self._alive_at = now
        self._whole_until = min(now + clocks.whole, call.deadline)
        self._now = clock
        self._scope: trio.CancelScope | None = None
        self._cut_short: ModelError | None = None

    def due(self) -> float:
        """When the nearest clock runs out, as things stand."""
        nearest = self._alive_at + (self._clocks.silence if self._connected else self._clocks.connect)
        return min(nearest, self._whole_until)

    def expire(self, now: float) -> None:
        """Ends the attempt for the clock that has run out by `now`. Idempotent."""
        endpoint, clocks, usage = self.endpoint, self._clocks, self.usage_so_far
        if now >= self._whole_until:
            seconds = self._whole_until - self.started_at
            self._cut(CallTimeout(f"{endpoint}: no complete answer within {seconds:.4g} s", usage=usage))
        elif not self._connected:
            self._cut(ConnectTimeout(f"{endpoint}: no connection within {clocks.connect:g} s", worked=False))
        else:
            self._cut(SilenceTimeout(f"{endpoint}: nothing arrived for {clocks.silence:g} s", usage=usage))

    def abandon(self) -> None:
        """Ends the attempt because its caller left. Idempotent."""
        self._cut(CallerGone("the caller left before the answer", usage=self.usage_so_far))

    def _cut(self, error: ModelError) -> None:
        if self.outcome is None and self._cut_short is None:
            self._cut_short = error
            if self._scope is not None:
                self._scope.cancel()

    async def run(self, connection: Connection, scope: trio.CancelScope) -> None:
        """Sends the request and notes the outcome, whatever it is; cuts itself short by cancelling `scope`."""
        outcome: ModelReply | ModelError | None = self._cut_short
        self._scope = scope
        try:
            if outcome is None:
                if self.call.tap is not None:
                    self.call.tap(RESET)
                if self.delivered:
                    await self._deliver(RESET)
                outcome = await connection.send(self.call.request, self)
        except ModelError as error:
            outcome = error
        except Exception as error:  # an adapter's fault must not take the owner down
            outcome = self._fault(error)
        finally:
            # an outcome that came in spite of the cut stands: the provider has done the work
            if outcome is None:
                outcome = self._cut_short or OwnerClosed(f"{self.endpoint}: the backend's owner has ended")
            self.outcome = outcome
            self._note(self.call)

    def fail(self, error: Exception) -> None:
        """Ends an attempt that could not even begin, since the adapter failed."""
        self.outcome = self._cut_short or self._fault(error)
        self._note(self.call)

    def _fault(self, error: Exception) -> Unavailable:
        fault = Unavailable(f"{self.endpoint}: the adapter failed: {type(error).__name__}: {error}")
        fault.__cause__ = error
        return fault

    # Progress, called by the connection

    def connected(self) -> None:
        self._connected = True
        self._alive_at = self._now()

    def written(self) -> None:
        self.written_at = self._alive_at = self._now()

    def headers(self, readings: Sequence[Reading]) -> None:
        self.headers_at = self._alive_at = self._now()
        self.readings = readings
        self._note(self.call)

    def alive(self) -> None:
        self._alive_at = self._now()

    def usage(self, usage: Usage) -> None:
        self.usage_so_far = usage
        self._note(self.call, ring=False)

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        self._alive_at = now = self._now()
        for delta in deltas:
            self.streamed += delta.tokens
        first = self.first_token_at is None
        if first:
            self.first_token_at = now
        self._note(self.call, ring=first)
        if self.call.tap is not None:
            self.call.tap(deltas)
        if self.call.deltas is not None:
            await self._deliver(tuple(deltas))

    async def _deliver(self, deltas: tuple[Delta, ...]) -> None:
        channel = self.call.deltas
        if channel is None:
            return
        try:
            try:
                channel.send_nowait(deltas)
            except trio.WouldBlock:
                self._alive_at = math.inf
                await channel.send(deltas)
                self._alive_at = self._now()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise CallerGone("the reader of the stream left", usage=self.usage_so_far) from None
        self.delivered = True
