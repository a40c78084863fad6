"""A provider that answers as a trace recorded, and enforces limits of its own: for replays in virtual time.

It is the simulated provider without words: its limits are the same code, but an answer has the recorded length and a
request has a size and no text. So a call costs a few wake-ups, whatever its length, and an hour takes seconds.
"""

import math
import random
from collections.abc import Sequence
from typing import Final

import trio
from msgspec import Struct

from agents.errors import Throttled
from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage, WireRequest
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.backends.simulated.limits import Enforcer, Grant, Refusal

BYTES_PER_TOKEN: Final = 4.0


class Recorded(ModelRequest, frozen=True, kw_only=True):
    """A request of which only its size is known. `given` is its input and `cached` the part that a cache serves;
    `length` is the answer it gets, and `seconds` how long that takes, None for the provider's own speed. Tokens.
    """

    given: int
    length: int
    cached: int = 0
    seconds: float | None = None


def recorded(
    given: int,
    length: int,
    *,
    cached: int = 0,
    max_tokens: int | None = None,
    seconds: float | None = None,
    noise: float = 1.0,
) -> Recorded:
    """The request of a recorded call. `noise` is how far its bytes are from what its tokens have on average."""
    size = max(1, round(given * BYTES_PER_TOKEN * noise))
    return Recorded(
        model="recorded",
        messages=(),
        max_tokens=max(length, max_tokens or 0),
        wire=WireRequest("chat", {}, size),
        given=given,
        length=length,
        cached=min(cached, given),
        seconds=seconds,
    )


class Speed(Struct, frozen=True, kw_only=True):
    """How fast the provider is: the first token after `first_token` seconds and uncached input at `input_rate`, then
    `output_rate` tokens a second for each call, told in `steps` pieces.
    """

    first_token: float = 0.25
    input_rate: float = 8000.0
    output_rate: float = 60.0
    steps: int = 4


class RecordedBackend:
    """One endpoint with one key. `refused` counts its 429s.

    With `tells_input` an answer says before its first token what its input came to, as Anthropic's streams do.
    """

    name = "recorded"

    def __init__(
        self,
        limits: Sequence[SimLimit] = (),
        *,
        concurrency: int | None = None,
        speed: Speed | None = None,
        headers: tuple[float, float] = (0.0, 0.0),
        tells_input: bool = False,
        seed: int = 0,
    ) -> None:
        self.enforcer = Enforcer(tuple(limits), concurrency)
        self.speed = speed or Speed()
        self.refused = 0
        self.admitted = 0
        self.peak = 0
        self.tells_input = tells_input
        self._headers = headers
        self._rng = random.Random(f"{seed}/recorded")

    def capabilities(self) -> Capabilities:
        return Capabilities("recorded", reports_cached=True)

    def connect(self) -> Connection:
        return _Connection(self)

    def admit(self, request: Recorded) -> Grant:
        """Counts the call. Raises `Throttled`."""
        now = trio.current_time()
        grant = self.enforcer.admit(now, request.given, request.max_tokens or request.length, request.cached)
        if isinstance(grant, Refusal):
            self.refused += 1
            kinds = frozenset[str]() if grant.kind is None else frozenset({grant.kind})
            wait = None if grant.wait is None or math.isinf(grant.wait) else grant.wait
            raise Throttled("the recorded provider refused the call", retry_after=wait, exhausted=kinds)
        self.admitted += 1
        self.peak = max(self.peak, self.enforcer.in_flight)
        return grant

    def arrival(self) -> float:
        """Seconds from a request's writing to its counting."""
        return self._rng.uniform(*self._headers) if self._headers[1] else 0.0

    def utilisation(self, start: float, end: float) -> dict[str, float]:
        """The share of each limit that was counted between two times."""
        return {limit.limit.kind: limit.utilisation(start, end) for limit in self.enforcer.limits}

    def __repr__(self) -> str:
        return f"<RecordedBackend {self.admitted} admitted, {self.refused} refused>"


class _Connection:
    __slots__ = ("_backend",)

    def __init__(self, backend: RecordedBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        assert isinstance(request, Recorded), "only recorded calls are played"
        backend = self._backend
        progress.connected()
        progress.written()
        arrival = backend.arrival()
        if arrival:
            await trio.sleep(arrival)
        try:
            grant = backend.admit(request)
        except Throttled:
            progress.headers(backend.enforcer.readings(trio.current_time()))
            raise
        try:
            progress.headers(backend.enforcer.readings(trio.current_time()))
            await self._answer(request, grant, progress)
        finally:
            backend.enforcer.settle(grant, trio.current_time())
        usage = Usage(request.given - request.cached, request.cached, None, request.length)
        return ModelReply(Message("assistant"), "stop", usage, request.model)

    async def _answer(self, request: Recorded, grant: Grant, progress: Progress) -> None:
        speed, length = self._backend.speed, request.length
        first = speed.first_token + (request.given - request.cached) / speed.input_rate
        rest = length / speed.output_rate
        if request.seconds is not None:
            first, rest = _parts(request.seconds, first, rest)
        await trio.sleep(first)
        if self._backend.tells_input:
            progress.usage(Usage(request.given - request.cached, request.cached, None, None))
        steps = max(1, min(speed.steps, length))
        told = 0
        for step in range(1, steps + 1):
            if step > 1:
                await trio.sleep(rest / (steps - 1))
            upto = length * step // steps if steps > 1 else length
            if upto > told:
                self._backend.enforcer.produced(grant, trio.current_time(), upto - told)
                await progress.deltas((Delta(tokens=upto - told),))
                told = upto
        if steps == 1:
            await trio.sleep(rest)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _parts(seconds: float, first: float, rest: float) -> tuple[float, float]:
    """The recorded time of a call, parted as the provider's own speed would."""
    part = first / (first + rest) if first + rest > 0 else 1.0
    return seconds * part, seconds * (1.0 - part)
