"""Which sessions start when, and what each would take on an idle backend.

Recorded sessions are drawn without repetition, as long as there are enough, and get starts of a Poisson process. A load
of L means that the sessions bring, while they keep starting, L times the work that the limit can serve: time in flight
where calls in flight are limited, uncached input and output where tokens of a minute are, and the scarcer of the two
where both are.
"""

import random
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from bench.recorded import Speed
from bench.traces.base import Session, SessionCall

SPEED: Final = Speed(steps=1)
"""For calls whose duration was not recorded. Nobody reads these answers, so they come in one piece."""


class Setting(Struct, frozen=True, kw_only=True):
    """What the provider allows: calls in flight, and tokens a minute without cached input; None is no limit."""

    concurrency: int | None = 8
    tokens_per_minute: int | None = None


class Started(Struct, frozen=True, kw_only=True):
    """A session and when it starts, in seconds. `idle` is what it would take if no call ever waited."""

    session: Session
    at: float
    idle: float


def duration(call: SessionCall) -> float:
    """Seconds in flight: as recorded, else at `SPEED`."""
    if call.seconds is not None:
        return call.seconds
    return SPEED.first_token + (call.input - call.cached) / SPEED.input_rate + call.output / SPEED.output_rate


def tokens(call: SessionCall) -> int:
    """What it takes of the limit on tokens."""
    return call.input - call.cached + call.output


def idle_seconds(session: Session) -> float:
    """The longest way through the session's calls, with their think times and no waiting."""
    ends: list[float] = []
    for call in session:
        begin = max((ends[place] for place in call.after), default=0.0)
        ends.append(begin + call.think + duration(call))
    return max(ends)


def started(sessions: Sequence[Session], count: int, load: float, setting: Setting, seed: int) -> list[Started]:
    """`count` sessions by their starts. The same seed draws the same sessions in the same order at every load."""
    rng = random.Random(f"{seed}/sessions")
    drawn = [session for _ in range(-(-count // len(sessions))) for session in rng.sample(sessions, len(sessions))]
    drawn = drawn[:count]
    rate = load * _capacity(drawn, setting)
    at, result = 0.0, []
    for session in drawn:
        at += rng.expovariate(1.0) / rate
        result.append(Started(session=session, at=at, idle=idle_seconds(session)))
    return result


def _capacity(drawn: Sequence[Session], setting: Setting) -> float:
    """Sessions a second that can be served in the long run."""
    able = []
    if setting.concurrency is not None:
        able.append(setting.concurrency * len(drawn) / sum(duration(call) for session in drawn for call in session))
    if setting.tokens_per_minute is not None:
        whole = sum(tokens(call) for session in drawn for call in session)
        able.append(setting.tokens_per_minute / 60.0 * len(drawn) / whole)
    return min(able)
