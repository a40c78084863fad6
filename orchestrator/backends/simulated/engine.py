"""The simulated provider's engine: works calls at the modelled speed, all of them together no faster than it is.

While a sink is slow its call is not worked on, and its tokens don't queue up.
"""

from collections.abc import Callable

import trio

from orchestrator.backends.simulated.answer import Sink
from orchestrator.backends.simulated.config import SimLatency
from orchestrator.backends.simulated.errors import Hangup, SimError
from orchestrator.backends.simulated.faults import CallFaults
from orchestrator.backends.simulated.plan import Plan

_AFTER_TOKENS = ("stall", "truncate", "error_event")
_CATCH_UP = 0.05
"""Seconds by which a chunk may be late and the next still on time: timers are; a reader who is later is waited for."""


class Engine:
    """Shared by all calls of a provider. `now` is its clock."""

    def __init__(self, latency: SimLatency, now: Callable[[], float]) -> None:
        self._latency = latency
        self._now = now
        self._decoding = 0

    async def decode(
        self, plan: Plan, faults: CallFaults, beat: float, sink: Sink, produced: Callable[[int], None]
    ) -> None:
        """Streams the tokens, each counted by `produced`; the shared speed is looked at once per chunk."""
        latency = self._latency
        breaks = sorted((rule.after_tokens, kind) for kind, rule in faults.items() if kind in _AFTER_TOKENS)
        at, end = 0, len(plan.tokens)
        self._decoding += 1
        try:
            due = self._now()
            while True:
                while breaks and (breaks[0][0] <= at or at == end):
                    await self._break(faults, breaks.pop(0)[1], beat, sink)
                if at == end:
                    return
                until = min(end, at + latency.chunk_tokens if at else 1)
                if breaks:
                    until = min(until, breaks[0][0])
                if self._now() - due > _CATCH_UP:
                    due = self._now()
                if at:  # the first token has had its delay
                    due += (until - at) / min(plan.rate, latency.engine_rate / self._decoding)
                    await self.pause(due - self._now(), beat, sink)
                produced(until - at)
                await sink.deltas(plan.deltas(at, until))
                at = until
        finally:
            self._decoding -= 1

    async def _break(self, faults: CallFaults, kind: str, beat: float, sink: Sink) -> None:
        if kind == "stall":
            await self.pause(faults["stall"].seconds, beat, sink)
        elif kind == "truncate":
            raise Hangup(reset=faults["truncate"].reset)
        else:
            rule = faults["error_event"]
            raise SimError(rule.status, "a scripted fault in the stream", code=rule.code, in_stream=True)

    async def pause(self, seconds: float, beat: float, sink: Sink) -> None:
        """Waits, with a heartbeat every `beat` seconds unless that is 0."""
        while beat and seconds > beat:
            await trio.sleep(beat)
            await sink.alive()
            seconds -= beat
        await trio.sleep(max(0.0, seconds))
