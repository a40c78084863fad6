"""The workloads of the VTC paper: its real trace, and its synthetic suites made anew from their descriptions.

The synthetic ones are those of the artifact's `exp_suite.py` for one A10G. Clients are numbered from 0. Most come
evenly spaced from a random phase; `on` says that the first client is silent in every second minute, `mixed` that
requests of two clients come in one Poisson stream. Phases and lengths are drawn anew for every replicate.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bench.traces.base import TraceCall

JITTER: Final = 0.05
"""Seconds by which an arrival is moved at most, either way: what one replay gives is a coin flip."""

MINUTE: Final = 60.0


class Suite(Struct, frozen=True, kw_only=True):
    """A workload by name. `light` are the clients that ask for less than their share all the time."""

    name: str
    about: str
    calls: Callable[[random.Random], list[TraceCall]]
    light: tuple[str, ...] = ()

    def replicate(self, seed: int, number: int) -> list[TraceCall]:
        """The calls of one replicate, in the order of their arrival."""
        rng = random.Random(f"{seed}/{self.name}/{number}")
        calls = [
            replace(call, at=max(0.0, call.at + rng.uniform(-JITTER, JITTER)), max_tokens=MAX_TOKENS)
            for call in self.calls(rng)
        ]
        return sorted(calls, key=lambda call: call.at)


MAX_TOKENS: Final = 1024
"""What every caller allows, so that a bound says nothing of the length."""


def real(calls: Sequence[TraceCall]) -> Suite:
    """The paper's real trace, from what was read of it."""
    return Suite(name="real", about="27 clients of the chat arena, 600 s", calls=lambda rng: list(calls))


def even(
    rates: Sequence[float], seconds: float, *, on: bool = False, start: float = 0.0, tokens: int = 256
) -> Callable[[random.Random], list[TraceCall]]:
    """Each client's requests evenly spaced from a random phase; the first one's only in even minutes where `on`."""

    def calls(rng: random.Random) -> list[TraceCall]:
        return [
            _call(client, at, tokens, tokens)
            for client, rate in enumerate(rates)
            for at in _spaced(start + rng.random() / rate, rate, int(rate * seconds))
            if not (on and client == 0 and _silent(at))
        ]

    return calls


def mixed(
    rates: tuple[float, float], seconds: float, size: Callable[[int, random.Random], tuple[int, int]], *, on: bool
) -> Callable[[random.Random], list[TraceCall]]:
    """One Poisson stream of two clients; `size` draws input and output of a client's request."""

    def calls(rng: random.Random) -> list[TraceCall]:
        at, made = 0.0, []
        for _ in range(int(sum(rates) * seconds)):
            at += rng.expovariate(sum(rates))
            client = int(rng.random() > rates[0] / sum(rates))
            given, output = size(client, rng)
            if not (on and client == 0 and _silent(at)):
                made.append(_call(client, at, given, output))
        return made

    return calls


def increase(rng: random.Random) -> list[TraceCall]:
    """The first client at 0.5 requests a second; the second rises from 0.2 to 2 within 600 s."""
    seconds, first, last = 600.0, 0.2, 2.0
    made = [_call(0, at, 256, 256) for at in _spaced(0.0, 0.5, int(0.5 * seconds))]
    at = 0.0
    for _ in range(int(0.5 * (first + last) * seconds)):
        at += 1.0 / (first + (last - first) * at / seconds)
        made.append(_call(1, at, 256, 256))
    return made


def shift(rng: random.Random) -> list[TraceCall]:
    """Three times five minutes: on and off, both overloading, in proportion."""
    third = 300.0
    parts = (
        even((0.5, 2.0), third, on=True),
        even((1.0, 1.0), third, start=third),
        even((0.5, 1.5), third, start=2 * third),
    )
    return [call for part in parts for call in part(rng)]


def _spaced(phase: float, rate: float, count: int) -> Iterator[float]:
    return (phase + number / rate for number in range(1, count + 1))


def _silent(at: float) -> bool:
    return math.floor(at / MINUTE) % 2 == 1


def _call(client: int, at: float, given: int, output: int) -> TraceCall:
    return TraceCall(at=at, tenant=str(client), input=given, output=output)


def _any_size(client: int, rng: random.Random) -> tuple[int, int]:
    return rng.randrange(16, 512), rng.randrange(16, 512)


def _short_and_long(client: int, rng: random.Random) -> tuple[int, int]:
    return (64, 64) if client == 0 else (256, 256)


def _reading_and_writing(client: int, rng: random.Random) -> tuple[int, int]:
    return (512, 32) if client == 0 else (32, 512)


SYNTHETIC: Final = (
    Suite(name="overload", about="2 clients at 1.5 and 3 requests/s, 256 in and out", calls=even((1.5, 3.0), 360.0)),
    Suite(
        name="overload-multi",
        about="3 clients at 0.4 and 5 at 0.6 requests/s, 256 in and out",
        calls=even((0.4,) * 3 + (0.6,) * 5, 360.0),
    ),
    Suite(
        name="on_off_less",
        about="0.5 requests/s in every second minute beside 2/s",
        calls=even((0.5, 2.0), 600.0, on=True),
        light=("0",),
    ),
    Suite(
        name="proportional",
        about="0.25, 0.5 and 1.5 requests/s",
        calls=even((0.25, 0.5, 1.5), 600.0),
        light=("0", "1"),
    ),
    Suite(
        name="on_off_overload",
        about="2 requests/s in every second minute beside 3/s",
        calls=even((2.0, 3.0), 600.0, on=True),
    ),
    Suite(name="increase", about="0.5 requests/s beside one rising from 0.2 to 2/s", calls=increase, light=("0",)),
    Suite(
        name="poisson_on_off_overload",
        about="Poisson, 0.5/s in every second minute beside 2/s, 16 to 511 tokens in and out",
        calls=mixed((0.5, 2.0), 600.0, _any_size, on=True),
        light=("0",),
    ),
    Suite(
        name="poisson_short_long",
        about="Poisson, 8 requests/s of 64 in and out beside 1.5/s of 256",
        calls=mixed((8.0, 1.5), 600.0, _short_and_long, on=False),
    ),
    Suite(
        name="poisson_short_long_2",
        about="Poisson, 8 requests/s of 512 in and 32 out beside 1.5/s of 32 in and 512 out",
        calls=mixed((8.0, 1.5), 600.0, _reading_and_writing, on=False),
    ),
    Suite(name="dist_shift", about="on and off, then both overloading, then in proportion; 900 s", calls=shift),
)
