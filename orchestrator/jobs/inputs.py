"""A job's inputs as one stream of items: files, folders, JSON Lines on a path or on standard input.

What a source holds follows from its name, unless the user says otherwise:

| source                            | items                                  | origin      |
|-----------------------------------|----------------------------------------|-------------|
| `*.jsonl`, `*.ndjson`, `-`, a pipe | one per line, see below                | `file:line` |
| any other file                    | one: the whole file is the text        | `file`      |
| a folder                          | its files at all levels, in name order | as a file's |

A line of JSON Lines is an object, whose keys are fields, or a string, which is the text. In folders, names that begin
with a dot are skipped. Blank lines are skipped, a byte-order mark at the start is dropped, and everything else must be
UTF-8. An item that cannot be read is `Unreadable`: it keeps its ordinal, says where and why, and the stream goes on.
"""

import json
import os
import stat
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.jobs.bytestream import ByteStream, Line

InputFormat = Literal["auto", "jsonl", "lines", "file"]

MAX_ITEM_BYTES = 4 * 1024 * 1024
"""More than any model's context holds, so a larger item is a mistake and not worth its memory."""

_BOM = "\ufeff"


class InputError(HeadraceError):
    """The inputs as a whole cannot be used; nothing was started."""


class Item(Struct, frozen=True):
    """One input. `ordinal` counts from 1 over all sources; `fields` are what a template may name."""

    ordinal: int
    origin: str
    fields: Mapping[str, Any]


class Unreadable(Struct, frozen=True):
    """An input that could not be read: it is a failed item of the job."""

    ordinal: int
    origin: str
    problem: str

    @property
    def message(self) -> str:
        return f"{self.origin}: {self.problem}"


class Source(Struct, frozen=True):
    """One checked `--input`. `path` None is standard input; `size` is in bytes, None for a pipe or a terminal."""

    path: Path | None
    format: Literal["jsonl", "lines", "file", "folder"]
    size: int | None

    @property
    def name(self) -> str:
        return "stdin" if self.path is None else str(self.path)


def check_source(argument: str, format: InputFormat = "auto", *, skip: Path | None = None) -> Source:
    """Looks at one `--input` without reading it: it exists, may be read, and is not empty. Raises `InputError`."""
    if argument == "-":
        return Source(None, _line_format(format), None)
    path = Path(argument)
    try:
        about = path.stat()
        if stat.S_ISREG(about.st_mode):
            with path.open("rb"):
                pass
    except OSError as error:
        raise InputError(f"{argument}: {_reason(error)}") from error
    if stat.S_ISDIR(about.st_mode):
        size = _folder_size(path, skip)
        return Source(path, "folder", size)
    if not stat.S_ISREG(about.st_mode):
        return Source(path, _line_format(format), None)
    if about.st_size == 0:
        raise InputError(f"{argument}: the file is empty")
    return Source(path, _file_format(path, format), about.st_size)


def check_sources(
    arguments: Sequence[str], format: InputFormat = "auto", *, skip: Path | None = None
) -> tuple[Source, ...]:
    """Checks every `--input`; `skip` is a file that is never an input (the job's own output). Raises `InputError`."""
    if not arguments:
        raise InputError("no input: give --input a file, a folder, or - for standard input")
    if list(arguments).count("-") > 1:
        raise InputError("standard input (-) can be read only once")
    for argument in arguments:
        if skip is not None and argument != "-" and _same_file(Path(argument), skip):
            raise InputError(f"{argument}: this file is also the output")
    return tuple(check_source(argument, format, skip=skip) for argument in arguments)


class InputStream:
    """The items of all sources in order, read as they are asked for.

    `consumed` counts the bytes behind the last item handed out, so `consumed / total_bytes` tells how far a job is in
    inputs nobody has counted. `total_bytes` is None as soon as one source is a pipe.
    """

    def __init__(self, sources: Sequence[Source], format: InputFormat = "auto", *, skip: Path | None = None) -> None:
        self.sources = tuple(sources)
        sizes = [source.size for source in sources]
        self.total_bytes: int | None = None if None in sizes else sum(size or 0 for size in sizes)
        self.consumed = 0
        self.count = 0
        self.ended = False
        self._format = format
        self._skip = skip

    def __repr__(self) -> str:
        state = "ended" if self.ended else "open"
        return f"<InputStream {len(self.sources)} sources, {self.count} items, {self.consumed} bytes, {state}>"

    async def items(self) -> AsyncGenerator[Item | Unreadable, None]:
        """Every item, once. A source that fails while it is read ends in an `Unreadable`, and the next one follows."""
        for source in self.sources:
            if source.format == "folder":
                assert source.path is not None
                for path in _files(source.path, self._skip):
                    async with aclosing(self._file(path, _file_format(path, self._format))) as items:
                        async for item in items:
                            yield item
            else:
                async with aclosing(self._file(source.path, source.format)) as items:
                    async for item in items:
                        yield item
        self.ended = True

    def _next(self) -> int:
        self.count += 1
        return self.count

    async def _file(self, path: Path | None, format: str) -> AsyncGenerator[Item | Unreadable, None]:
        name = "stdin" if path is None else str(path)
        try:
            async with ByteStream(path) as stream:
                if format == "file":
                    yield await self._whole(stream, name)
                    return
                async with aclosing(stream.lines(MAX_ITEM_BYTES)) as lines:
                    before = self.consumed
                    async for line in lines:
                        self.consumed = before + line.end
                        item = self._from_line(line, name, format)
                        if item is not None:
                            yield item
        except OSError as error:
            yield Unreadable(self._next(), name, _reason(error))

    async def _whole(self, stream: ByteStream, name: str) -> Item | Unreadable:
        data = await stream.read_up_to(MAX_ITEM_BYTES)
        if data is None:
            return Unreadable(self._next(), name, _too_long())
        self.consumed += len(data)
        try:
            text = data.decode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            return Unreadable(self._next(), f"{name}:{line}", _not_utf8(data, error.start))
        if not text.strip():
            return Unreadable(self._next(), name, "the file is empty")
        return Item(self._next(), name, {"text": text})

    def _from_line(self, line: Line, name: str, format: str) -> Item | Unreadable | None:
        origin = f"{name}:{line.number}"
        data = line.data
        if data is None:
            return Unreadable(self._next(), origin, _too_long())
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return Unreadable(self._next(), origin, _not_utf8(data, error.start, line.offset))
        if line.number == 1:
            text = text.removeprefix(_BOM)
        if not text.strip():
            return None
        if format == "lines":
            return Item(self._next(), origin, {"text": text})
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            column, problem = _locate(text, error)
            return Unreadable(self._next(), f"{origin}:{column}", problem)
        if isinstance(value, str):
            return Item(self._next(), origin, {"text": value})
        if isinstance(value, dict):
            return Item(self._next(), origin, value)
        return Unreadable(self._next(), origin, "a line must be a JSON object or a JSON string")


def _locate(text: str, error: Exception) -> tuple[int, str]:
    """Where a line stops being JSON, counted in characters from 1, and why."""
    try:
        json.loads(text)
    except json.JSONDecodeError as found:
        return found.colno, f"not valid JSON: {found.msg[0].lower()}{found.msg[1:]}"
    except RecursionError:
        return 1, "not usable JSON: nested too deeply"
    # What the strict decoder alone refuses: NaN, lone surrogates, numbers out of range.
    return 1, f"not valid JSON: {str(error)[:1].lower()}{str(error)[1:]}"


def _not_utf8(data: bytes, start: int, base: int = 0) -> str:
    guess = " (it looks like UTF-16)" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    return f"not UTF-8 at byte offset {base + start}{guess}"


def _too_long() -> str:
    return f"longer than {MAX_ITEM_BYTES // 1024 // 1024} MiB, which is more than one item may have"


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return (error.strerror or str(error)).lower()


def _line_format(format: InputFormat) -> Literal["jsonl", "lines", "file"]:
    return "jsonl" if format == "auto" else format


def _file_format(path: Path, format: InputFormat) -> Literal["jsonl", "lines", "file"]:
    if format != "auto":
        return format
    return "jsonl" if path.suffix.lower() in (".jsonl", ".ndjson") else "file"


def _same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False


def _files(folder: Path, skip: Path | None) -> Iterator[Path]:
    """A folder's regular files, depth first in order of name; links to folders are not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if name.startswith(".") or not path.is_file() or (skip is not None and _same_file(path, skip)):
                continue
            yield path


def _folder_size(folder: Path, skip: Path | None) -> int:
    sizes = [0]
    found = False
    for path in _files(folder, skip):
        found = True
        sizes[0] += path.stat().st_size
    if not found:
        raise InputError(f"{folder}: the folder has no files")
    return sizes[0]
