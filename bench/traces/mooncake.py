"""Mooncake's conversation trace (kvcache-ai/Mooncake, FAST'25, Apache-2.0), as published and as a smaller table.

Published are JSON lines: `{"timestamp": ms, "input_length", "output_length", "hash_ids": [...]}`, with a hash for each
block of 512 tokens, equal where all input up to the block's end is. What a cache without end would have had is counted
from those. The table `t_ms,in_tok,out_tok,prefix_hit_tok,group` has that count instead; calls of a group share a first
block, and are one run here.

Arrivals were rounded to about 3 s. Played as they stand they would all come at once, so those of one tick are spread
over the time until the next, at most `TICK`, uniformly by a fixed seed.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bench.traces.base import TraceCall, TraceError
from bench.traces.rows import rows, text_of

COLUMNS: Final = ("t_ms", "in_tok", "out_tok", "prefix_hit_tok", "group")
BLOCK: Final = 512
TICK: Final = 3.0


class _Line(Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.timestamp < 1e15 and self.input_length >= 0 and self.output_length >= 0):
            raise ValueError("times and lengths are numbers from 0")


def read_mooncake(path: Path) -> Iterator[TraceCall]:
    """The calls of the table, in its order. Raises `TraceError`."""
    return _spread(
        TraceCall(
            at=row.seconds("t_ms", per_second=1000.0),
            input=(given := row.tokens("in_tok")),
            output=max(1, row.tokens("out_tok")),
            cached=min(given, row.tokens("prefix_hit_tok")),
            run=row.text("group"),
        )
        for row in rows(path, COLUMNS)
    )


def read_mooncake_lines(path: Path) -> Iterator[TraceCall]:
    """The calls of the published form, in its order. Raises `TraceError`."""
    return _spread(_lines(path))


def _lines(path: Path) -> Iterator[TraceCall]:
    decoder = msgspec.json.Decoder(_Line)
    seen: set[int] = set()
    empty = True
    with text_of(path) as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                line = decoder.decode(text)
            except msgspec.MsgspecError as error:
                raise TraceError(path, number, f"is not a call with timestamp and lengths: {error}") from None
            known = next((place for place, block in enumerate(line.hash_ids) if block not in seen), len(line.hash_ids))
            seen.update(line.hash_ids)
            empty = False
            yield TraceCall(
                at=line.timestamp / 1000.0,
                input=line.input_length,
                output=max(1, line.output_length),
                cached=min(line.input_length, known * BLOCK),
                run=str(line.hash_ids[0]) if line.hash_ids else "",
            )
    if empty:
        raise TraceError(path, None, "has no calls")


def _spread(calls: Iterable[TraceCall]) -> Iterator[TraceCall]:
    """The calls of each tick spread over the time until the next."""
    rng = random.Random("mooncake")
    waiting: list[TraceCall] = []
    for at, group in groupby(calls, key=lambda call: call.at):
        yield from _within(waiting, at, rng)
        waiting = list(group)
    yield from _within(waiting, float("inf"), rng)


def _within(calls: list[TraceCall], until: float, rng: random.Random) -> Iterator[TraceCall]:
    if len(calls) < 2:
        yield from calls
        return
    span = min(max(0.0, until - calls[0].at), TICK)
    for offset, call in zip(sorted(rng.uniform(0.0, span) for _ in calls), calls, strict=True):
        yield replace(call, at=call.at + offset)
