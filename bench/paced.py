"""How many streams of 50 tokens a second a gateway carries before its chunks come late.

The stub paces the streams and stamps every chunk with the moment it left; its delay is how long it was on its way.
Streams begin one after the other within a second and run side by side; the number is doubled while all is well, then
the border is searched. A number is carried if the 99th percentile of the delays stays under 100 ms, no stream failed,
and the streams took no longer than their pace: late chunks of a slow stub would not show as delays.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

import trio
from msgspec import structs

from bench.gateway import DIRECT, OURS, Cell, body, cell_of, milliseconds
from bench.http_load import load
from bench.processes import daemon, stub

RATE: Final = 50.0
"""Chunks a second of each stream."""

LATE_MS: Final = 100.0
"""A number of streams is carried while the 99th percentile of chunks' delays, in milliseconds, is below this."""

_FIRST: Final = 16
_SLOWER: Final = 1.1
"""How much longer than its pace a median stream may take."""


def measure_streams(
    most: int,
    *,
    against: Sequence[str] = (),
    stub_url: str | None = None,
    seconds: float = 3.0,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[Cell]:
    """For every target the largest number of streams it carried, up to `most`, with the delays of its chunks.

    A stub of one's own, at `stub_url`, must pace its answers. In a cell `connections` is that number, and the latencies
    are delays of chunks. A target that carried not even the first number has 0, with what it did at that number.
    """
    with ExitStack() as running:
        direct = stub_url or running.enter_context(stub(RATE))
        ours = running.enter_context(daemon(direct, concurrency=most))
        targets = {DIRECT: direct, OURS: ours, **{url: url for url in against}}
        return [_border(name, url, most, seconds, on_progress) for name, url in targets.items()]


def _border(name: str, url: str, most: int, seconds: float, on_progress: Callable[[str], None]) -> Cell:
    cells: dict[int, Cell] = {}

    def holds(number: int) -> bool:
        cells[number], carried = _probe(name, url, number, seconds)
        delay = cells[number].p99_ms
        told = "no chunks" if delay is None else f"p99 {delay:.1f} ms"
        on_progress(f"{name}, {number} streams: {told}, {'carried' if carried else 'not carried'}")
        return carried

    carried = largest(most, holds)
    return cells[carried] if carried else structs.replace(cells[min(cells)], connections=0)


def largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `most` that was seen to hold, found within a tenth or 4; 0 if none did."""
    held, number = 0, min(_FIRST, most)
    while number > held and holds(number):
        held, number = number, min(number * 2, most)
    broken = number
    while broken - held > max(4, held // 10):
        middle = (held + broken) // 2
        held, broken = (middle, broken) if holds(middle) else (held, middle)
    return held


def _probe(name: str, url: str, streams: int, seconds: float) -> tuple[Cell, bool]:
    """So many streams of `seconds`, and whether they were carried."""
    chunks = max(1, round(seconds * RATE))
    asked = body(chunks, streamed=True)
    piece = partial(load, url, asked, connections=streams, seconds=seconds, each=1, stagger=min(1.0, seconds / 2))
    measured = trio.run(piece)
    cell = cell_of("stream_50", streams, name, measured)
    p50, p99 = milliseconds(measured.delays, 0.5), milliseconds(measured.delays, 0.99)
    on_pace = (milliseconds(measured.latencies, 0.5) or 0.0) <= seconds * 1e3 * _SLOWER + LATE_MS
    holds = p99 is not None and p99 < LATE_MS and not measured.failed and on_pace
    return Cell("stream_50", streams, name, cell.requests_per_second, p50, p99, measured.failed), holds
