"""When somebody's calls were waiting, and what was served meanwhile: arithmetic on intervals of time."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Span = tuple[float, float]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of intervals, in order and apart from one another."""
    union: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if union and start <= union[-1][1]:
            if end > union[-1][1]:
                union[-1] = (union[-1][0], end)
        else:
            union.append((start, end))
    return union


def covers(union: Sequence[Span], start: float, end: float) -> bool:
    """Whether one interval of a union contains all of [start, end]."""
    place = bisect_right(union, (start, float("inf"))) - 1
    return place >= 0 and union[place][0] <= start and end <= union[place][1]


def ticks(end: float, width: float) -> list[Span]:
    """The whole intervals of a width from 0 to `end`."""
    return [(place * width, (place + 1) * width) for place in range(int(end // width))]


class ServiceOverTime:
    """Service over time: amounts that come in at one instant or evenly over an interval, asked for by ticks."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._ticks: dict[int, float] = {}

    def add(self, start: float, end: float, amount: float) -> None:
        width, ticks = self._width, self._ticks
        first, last = int(start // width), int(end // width)
        if first == last or end <= start:
            ticks[first] = ticks.get(first, 0.0) + amount
            return
        rate = amount / (end - start)
        for tick in range(first, last + 1):
            part = min(end, (tick + 1) * width) - max(start, tick * width)
            ticks[tick] = ticks.get(tick, 0.0) + rate * part

    def at(self, tick: int) -> float:
        return self._ticks.get(tick, 0.0)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in order; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all are equal, 1/n where one has all (Jain, Chiu, Hawe 1984)."""
    squares = sum(value * value for value in values)
    return 1.0 if squares == 0.0 else sum(values) ** 2 / (len(values) * squares)
