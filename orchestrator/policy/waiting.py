"""What waits in a queue, counted, and how much of it has to go before more fits."""

import math

from msgspec import Struct

UNKNOWN_WAIT = 10.0
"""The wait in seconds that is named while no rate has been measured."""


class Waiting(Struct):
    """What waits: HTTP calls and their bytes, the part of them that may be evicted, and their expected work."""

    http_calls: int = 0
    http_bytes: int = 0
    batch_calls: int = 0
    batch_bytes: int = 0
    calls: int = 0
    work: float = 0.0


def over(waiting: Waiting, calls: int, bytes: int, size: int, *, without_batch: bool = False) -> bool:
    """Whether one more call of `size` bytes would exceed a cap, also if all evictable calls were gone."""
    held_calls, held_bytes = waiting.http_calls, waiting.http_bytes
    if without_batch:
        held_calls -= waiting.batch_calls
        held_bytes -= waiting.batch_bytes
    return held_calls + 1 > calls or held_bytes + size > bytes


def part_to_drain(waiting: Waiting, calls: int, bytes: int, size: int) -> float:
    """The part of the waiting HTTP calls that has to go before one more of `size` bytes fits.

    The same part of their work has to go, whoever is served between them.
    """
    part = 0.0
    if waiting.http_calls:
        part = max(0.0, (waiting.http_calls + 1 - calls) / waiting.http_calls)
    if waiting.http_bytes:
        part = max(part, (waiting.http_bytes + size - bytes) / waiting.http_bytes)
    return min(1.0, part)


def seconds_to_drain(work: float, rate: float | None) -> float:
    if work <= 0:
        return 0.0
    if rate is None:
        return UNKNOWN_WAIT
    return work / rate if rate > 0 else math.inf
