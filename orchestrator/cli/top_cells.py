"""The small pieces that the live board is made of: bars, times, columns of an exact width."""

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from orchestrator.cli.progress import short
from orchestrator.cli.render import brief

NAME_MOST = 120
"""Characters of a name that are looked at; no terminal has room for more."""


class Glyphs(Struct, frozen=True):
    """What bars are drawn with. `cut` ends what had no room; each is one cell wide."""

    full: str = "█"
    others: str = "▒"
    empty: str = "░"
    mark: str = "│"
    cut: str = "…"


UNICODE = Glyphs()
ASCII = Glyphs(full="#", others="+", empty="-", mark="|", cut="~")


def name_of(text: str) -> str:
    """A name that somebody else chose, safe to show on one line."""
    return brief(text, NAME_MOST)


def clip(text: Text, width: int, glyphs: Glyphs) -> Text:
    """The text in at most `width` cells."""
    return text if text.cell_len <= width else fit(text, width, glyphs)


def fit(text: Text, width: int, glyphs: Glyphs, *, right: bool = False) -> Text:
    """The text in exactly `width` cells: cut at its end, or padded."""
    size = text.cell_len
    if size > width:
        kept = text.copy()
        kept.plain = set_cell_size(text.plain, max(width - cell_len(glyphs.cut), 0)) + (glyphs.cut if width else "")
        return kept
    padding = " " * (width - size)
    return Text.assemble(padding, text) if right else Text.assemble(text, padding)


def bar(used: float, width: int, glyphs: Glyphs, *, others: float = 0.0, style: str = "cyan") -> Text:
    """A bar of `width` cells; `used` and what `others` use are parts of 1. What is above 0 shows."""
    full = _cells(used, width)
    foreign = min(_cells(others, width), width - full)
    return Text.assemble(
        (glyphs.full * full, style),
        (glyphs.others * foreign, "magenta"),
        (glyphs.empty * (width - full - foreign), "dim"),
    )


def mark(drawn: Text, part: float, glyphs: Glyphs) -> Text:
    """The bar with a mark at `part`."""
    at = min(int(part * len(drawn)), len(drawn) - 1)
    return Text.assemble(drawn[:at], (glyphs.mark, "bold"), drawn[at + 1 :])


def percent(part: float) -> str:
    """`0%`, `<1%`, `74%`."""
    if 0 < part < 0.005:
        return "<1%"
    return f"{part * 100:.0f}%"


def few(number: float) -> str:
    """A number in at most six characters: `999`, `12.3k`, `200k`."""
    return short(number).replace(".0", "")


def span(seconds: float) -> str:
    """A time in at most six characters: `0.4s`, `42s`, `3m05s`, `2h10m`, `3d4h`; `-` for none."""
    if seconds <= 0:
        return "-"
    if seconds < 9.95:
        return f"{max(seconds, 0.1):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def _cells(part: float, width: int) -> int:
    if part <= 0:
        return 0
    return max(1, min(width, round(part * width)))
