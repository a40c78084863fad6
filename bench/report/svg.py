"""Small pictures as inline SVG: horizontal bars, stacked shares, lines.

Pure functions from figures to text. Colours are classes (`c0` to `c5`) that the page's style fills in, light or dark.
A picture is 440 units wide, so that its letters can be read on a phone without turning it.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from msgspec import Struct

WIDTH: Final = 440
COLOURS: Final = 6
_LEFT: Final = 8
_BAR: Final = 13
_LINE: Final = 16
_ROOM: Final = 92
"""To the right of the longest bar, for its figure."""


class Bar(Struct, frozen=True):
    """One bar. `mark` is a figure to hold it against, drawn as a line across it."""

    series: str
    value: float | None
    mark: float | None = None


class Group(Struct, frozen=True):
    """Bars under one heading."""

    label: str
    bars: Sequence[Bar]


def bars(groups: Sequence[Group], *, form: str = ",.0f", unit: str = "", log: bool = False) -> str:
    """Grouped bars, each with its figure; a bar without one says so. With `log` lengths are logarithms."""
    names = _names(groups)
    values = [value for group in groups for bar in group.bars for value in (bar.value, bar.mark) if value is not None]
    length = _Scale(values, WIDTH - _LEFT - _ROOM, log)
    parts, y = _legend(names)
    for group in groups:
        y += _LINE
        parts.append(_text(_LEFT, y - 4, group.label))
        for bar in group.bars:
            wide = 0.0 if bar.value is None else length(bar.value)
            colour = names.index(bar.series) % COLOURS
            parts.append(f'<rect class="c{colour}" x="{_LEFT}" y="{y}" width="{wide:.1f}" height="{_BAR - 2}" rx="1"/>')
            if bar.mark is not None:
                x = _LEFT + length(bar.mark)
                parts.append(f'<path class="mark" d="M{x:.1f} {y - 1}v{_BAR}"/>')
            at = max(wide, length(bar.mark) if bar.mark is not None else 0.0)
            told = "none" if bar.value is None else f"{bar.value:{form}}{unit}"
            parts.append(_text(_LEFT + at + 5, y + _BAR - 4, told, "figure"))
            y += _BAR
        y += 4
    return _svg(parts, y + 4)


def stacked(rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """One bar a row, parted by the shares of its values; all rows have the same length."""
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    whole = WIDTH - 2 * _LEFT
    parts, y = _legend(names)
    for label, values in rows:
        y += _LINE
        parts.append(_text(_LEFT, y - 4, label))
        total = sum(values.values()) or 1.0
        x = float(_LEFT)
        for place, name in enumerate(names):
            wide = whole * values.get(name, 0.0) / total
            if wide > 0:
                colour = place % COLOURS
                parts.append(
                    f'<rect class="c{colour}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}">'
                    f"<title>{escape(name)}: {values[name] / total:.1%}</title></rect>"
                )
            x += wide
        y += _BAR + 4
    return _svg(parts, y + 4)


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], *, x_label: str, y_label: str, level: float | None = None
) -> str:
    """Lines through points, both axes linear. `level` is a height to hold them against."""
    points = [point for each in series.values() for point in each]
    if not points:
        return _svg([_text(_LEFT, 20, "no points")], 30)
    parts, top = _legend(list(series))
    top += 22
    left, right, bottom = 44.0, WIDTH - 14.0, top + 190.0
    heights = [y for _, y in points] + ([] if level is None else [level])
    ticks = _ticks(min(heights), max(heights))
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)

    def at_x(x: float) -> float:
        return left + (right - left) * ((x - x_low) / (x_high - x_low) if x_high > x_low else 0.5)

    def at_y(y: float) -> float:
        return bottom - (bottom - top) * (y - ticks[0]) / (ticks[-1] - ticks[0])

    parts.append(_text(_LEFT, top - 10, y_label))
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{left} {at_y(tick):.1f}H{right}"/>')
        parts.append(_text(left - 5, at_y(tick) + 4, f"{tick:g}", "figure end"))
    for x in sorted({x for x, _ in points}):
        parts.append(_text(at_x(x), bottom + 15, f"{x:g}", "figure middle"))
    parts.append(_text((left + right) / 2, bottom + 31, x_label, "middle"))
    if level is not None:
        parts.append(f'<path class="mark" d="M{left} {at_y(level):.1f}H{right}"/>')
    for place, each in enumerate(series.values()):
        at = [(at_x(x), at_y(y)) for x, y in sorted(each)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        parts.append(f'<path class="l{place % COLOURS}" d="M{path}"/>')
        parts += [f'<circle class="c{place % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at]
    return _svg(parts, bottom + 40)


def _names(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(bar.series for group in groups for bar in group.bars))


class _Scale:
    """Figures to lengths. Logarithms begin a little below the least figure, so that it can be seen."""

    def __init__(self, values: Sequence[float], longest: float, log: bool) -> None:
        above = [value for value in values if value > 0]
        self._longest, self._log = longest, log and bool(above)
        self._high = max(above, default=1.0)
        self._low = min(above, default=1.0) / 2

    def __call__(self, value: float) -> float:
        if value <= 0:
            return 0.0
        if self._log:
            return self._longest * math.log(value / self._low) / math.log(self._high / self._low)
        return self._longest * value / self._high


def _ticks(low: float, high: float) -> list[float]:
    """Round heights, at most eight, that enclose all of the range."""
    apart = (high - low) or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(apart))
    step = next(size for size in (step / 5, step / 2, step, step * 2) if apart / size <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(place * step, 12) for place in range(first, max(last, first + 1) + 1)]


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """Names beside their colours, in as many lines as they need, and where the picture goes on below them."""
    if len(names) < 2:
        return [], 2
    parts, x, y = [], float(_LEFT), 14
    for place, name in enumerate(names):
        wide = 16 + 6.2 * len(name) + 10
        if x + wide > WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + _LINE
        parts.append(f'<rect class="c{place % COLOURS}" x="{x:.1f}" y="{y - 9}" width="10" height="10" rx="1"/>')
        parts.append(_text(x + 14, y, name))
        x += wide
    return parts, y + 6


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
