"""What a daemon says, shaped for people: text that cannot drive a terminal, ages, tables that fit.

Answers, tool results and names come from models and other people. On a terminal their control characters would move
the cursor, change its title or worse, so they are shown instead of sent. What goes into a pipe or a file is data, and
goes as it is.
"""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.messages import Usage
from agents.money import MILLION
from orchestrator.cli.progress import dollars

_PIPE_WIDTH = 1000
"""Nobody reads a pipe by eye, and whatever does wants whole words."""

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
# What reorders text makes a line read differently from what it is.
_SHOWN |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F))}
_SHOWN |= {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}
_SHOWN_JSON = {code: f"\\u{code:04x}" for code in _SHOWN if code >= 0x7F}
_ONE_LINE = _SHOWN | {ord("\n"): " ", ord("\t"): " "}


def clean(text: str) -> str:
    """The text with its control characters shown, line breaks and tabs apart."""
    return text.translate(_SHOWN)


def brief(text: str, most: int = 100) -> str:
    """The beginning of the text, on one line."""
    line = " ".join(text[: 4 * most].translate(_ONE_LINE).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 3]}..."


def print_text(text: str) -> None:
    """A text on standard output: as it is for programs, cleaned for a terminal."""
    text = clean(text) if sys.stdout.isatty() else text
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output."""
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    if sys.stdout.isatty():
        data = clean_json(data)
    sys.stdout.write(f"{data.decode()}\n")
    sys.stdout.flush()


def clean_json(data: bytes) -> bytes:
    """The same JSON with the control characters escaped that JSON allows in its strings: for a terminal."""
    return (
        data
        if data.isascii() and b"\x7f" not in data
        else data.decode(errors="replace").translate(_SHOWN_JSON).encode()
    )


def console(*, stderr: bool = False) -> Console:
    """Where tables go: as wide as the terminal, or as wide as they like in a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def print_table(table: Table, *, stderr: bool = False) -> None:
    """A table; in a pipe without the spaces that fill its last column."""
    out = console(stderr=stderr)
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as capture:
        out.print(table)
    out.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
    out.file.flush()


def columns(*names: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> Table:
    """An empty table: a head and nothing else. `right` holds numbers; where it gets narrow, `whole` is cut last."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(
            name.upper(), justify="right" if name in right else "left", no_wrap=name in whole, overflow="ellipsis"
        )
    return table


def cells(*values: str) -> list[Text]:
    """Cells of a row, cleaned, and never read as markup."""
    return [Text(value.translate(_ONE_LINE)) for value in values]


def facts() -> Table:
    """An empty list of named facts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def age(seconds: float) -> str:
    """`4s`, `12m`, `3h5m`, `2d4h`: short, for a column."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def tokens(usage: Usage) -> str:
    """`1,204 in (96 cached), 88 out`; what the provider did not report is unknown, not 0."""
    if usage.all_input is None and usage.output is None:
        return "unknown"
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    return f"{_count(usage.all_input)} in{cached}, {_count(usage.output)} out"


def money(micro_dollars: int | None) -> str:
    return "unknown" if micro_dollars is None else dollars(micro_dollars / MILLION)


def many(number: int, name: str) -> str:
    """`1 round`, `1,204 rounds`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
