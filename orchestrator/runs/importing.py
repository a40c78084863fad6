"""An exported log, read back: checked whole before any of it is taken in."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agents.events import Event, RunCreated, decode
from agents.fold import fold
from orchestrator.json_numbers import BITS, too_large
from orchestrator.runs.errors import BadLog
from orchestrator.runs.head import Head
from orchestrator.store.base import RunRow
from orchestrator.views.names import check_name
from orchestrator.views.sessions import EXPORT_VERSION, ExportHeader, ExportLine

LONGEST_LINE: Final = 64 * 1024 * 1024
MOST_EVENTS: Final = 1_000_000

_header: Final = msgspec.json.Decoder(ExportHeader)
_line: Final = msgspec.json.Decoder(ExportLine)


class ReadLog(Struct, frozen=True):
    """A whole log: what it says of itself, its events as they were stored, and what they are."""

    header: ExportHeader
    records: list[bytes]
    events: list[Event]


async def read_log(pieces: AsyncIterator[bytes]) -> ReadLog:
    """The log in these pieces, of any size. Raises `BadLog`, `UnknownEvent`, `BrokenLog`."""
    header: ExportHeader | None = None
    records: list[bytes] = []
    events: list[Event] = []
    async with aclosing(_numbered(pieces)) as lines:
        async for number, line in lines:
            if header is None:
                header = _read_header(line)
                continue
            one = _read_line(line, number)
            if one.number != len(records) + 1:
                raise BadLog(f"line {number} of the log holds event {one.number}; event {len(records) + 1} comes there")
            if len(records) >= min(header.events, MOST_EVENTS):
                raise BadLog(f"the log says {header.events} events, and has more, or more than {MOST_EVENTS}")
            records.append(bytes(one.event))
            events.append(decode(records[-1]))
    if header is None:
        raise BadLog("there is nothing in the log; its first line must say whose it is")
    if len(records) != header.events or not records:
        raise BadLog(f"the log was cut short: it says {header.events} events, and has {len(records)}")
    fold(events)
    return ReadLog(header, records, events)


def rows_of(log: ReadLog, tenant: str) -> tuple[RunRow, ...]:
    """What the index says of the log's runs, the oldest first. Raises `InvalidLimits` for a name that is none."""
    heads: dict[str, Head] = {}
    for number, event in enumerate(log.events, 1):
        if isinstance(event, RunCreated):
            if len(event.run) <= 64:
                check_name("run", event.run)
            head = Head.of(event, number - 1)
            heads[event.run] = Head(replace(head.view, tenant=tenant, session=log.header.session), head.after)
        else:
            heads[event.run] = heads[event.run].then([event])
    return tuple(head.row() for head in heads.values())


async def _numbered(pieces: AsyncIterator[bytes]) -> AsyncGenerator[tuple[int, bytes], None]:
    number = 0
    held: list[bytes] = []
    size = 0
    async for piece in pieces:
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join((*held, lines[0]))
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise BadLog(f"line {number + len(lines) + 1} of the log has more than {LONGEST_LINE} bytes")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line
    last = b"".join(held)
    if last.strip():
        yield number + 1, last


def _check_numbers(line: bytes, number: int) -> None:
    if too_large(line):
        raise BadLog(f"line {number} of the log has a whole number of more than {BITS} bits")


def _read_header(line: bytes) -> ExportHeader:
    _check_numbers(line, 1)
    try:
        header = _header.decode(line)
    except msgspec.DecodeError as error:
        raise BadLog(f"line 1 does not say that this is an exported log: {error}") from error
    if header.version != EXPORT_VERSION:
        raise BadLog(f"the log's form is of version {header.version}; this is version {EXPORT_VERSION}")
    return header


def _read_line(line: bytes, number: int) -> ExportLine:
    _check_numbers(line, number)
    try:
        return _line.decode(line)
    except msgspec.DecodeError as error:
        raise BadLog(f"line {number} of the log is no event: {error}") from error
