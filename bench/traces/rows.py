"""Rows of a table in a file, plain or compressed with gzip, of which every complaint names file and line."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.traces.base import TraceError

_GZIP = b"\x1f\x8b"


class Row:
    """One line's fields by the name of their column. Every reading of a field raises `TraceError` where it is bad."""

    __slots__ = ("_columns", "_fields", "_path", "line")

    def __init__(self, path: Path, line: int, columns: dict[str, int], fields: Sequence[str]) -> None:
        self._path = path
        self._columns = columns
        self._fields = fields
        self.line = line

    def text(self, column: str) -> str:
        return self._fields[self._columns[column]].strip()

    def has(self, column: str) -> bool:
        """Whether the file has a column, and this line goes so far."""
        return self._columns.get(column, len(self._fields)) < len(self._fields)

    def seconds(self, column: str, *, per_second: float = 1.0) -> float:
        """A number from 0, in units of which `per_second` make a second."""
        value = self._number(column, "a time as a number from 0")
        return value / per_second

    def optional_seconds(self, column: str) -> float | None:
        return self.seconds(column) if self.text(column) else None

    def tokens(self, column: str) -> int:
        """A whole number from 0; `12.0` is one as well."""
        value = self._number(column, "a whole number of tokens from 0")
        if value != int(value) or value > 1e12:
            raise self.bad(column, "a whole number of tokens from 0")
        return int(value)

    def _number(self, column: str, right: str) -> float:
        try:
            value = float(self.text(column))
        except ValueError:
            value = math.nan
        if not 0.0 <= value < math.inf:
            raise self.bad(column, right)
        return value

    def bad(self, column: str, right: str) -> TraceError:
        """The complaint about one field: what it is, and what would be right."""
        return TraceError(self._path, self.line, f"{column} is {self.text(column)[:80]!r} and should be {right}")

    def wrong(self, problem: str) -> TraceError:
        """A complaint about the whole line."""
        return TraceError(self._path, self.line, problem)


def rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a file of comma-separated values whose first line names at least these columns.

    Empty lines are passed over. Raises `TraceError` for a file that cannot be read, and for one without a row.
    """
    with text_of(path) as file:
        lines = csv.reader(file)
        try:
            head = next(lines, None)
            places = {name.strip().lstrip("\ufeff"): place for place, name in enumerate(head or ())}
            missing = [name for name in columns if name not in places]
            if missing:
                expected = ",".join(columns)
                raise TraceError(path, 1, f"there is no column {', '.join(missing)}; the first line names {expected}")
            width = 1 + max(places[name] for name in columns)
            empty = True
            for fields in lines:
                if not fields:
                    continue
                if len(fields) < width:
                    raise TraceError(path, lines.line_num, f"has {len(fields)} fields and should have {len(places)}")
                empty = False
                yield Row(path, lines.line_num, places, fields)
        except csv.Error as error:
            raise TraceError(path, lines.line_num, f"is not a line of comma-separated values: {error}") from None
    if empty:
        raise TraceError(path, None, "has no calls after its first line")


@contextmanager
def text_of(path: Path) -> Iterator[IO[str]]:
    """The text of a file, decompressed where it is compressed. Raises `TraceError` for one that cannot be read."""
    try:
        with open(path, "rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP
            whole = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(whole, encoding="utf-8", newline="") as file:
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise TraceError(path, None, "is cut off or damaged: it does not decompress to its end") from None
    except UnicodeDecodeError:
        raise TraceError(path, None, "is not text in UTF-8") from None
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror or error}") from None
