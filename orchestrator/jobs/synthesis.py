"""A job's synthesis: what its run is told of the results, from the file they are in."""

import os
from array import array
from typing import Final

import msgspec
import trio

from agents.errors import HeadraceError
from orchestrator.jobs.files import storage_error
from orchestrator.jobs.inputs import MAX_ITEM_BYTES
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.template import Template, TemplateError
from orchestrator.views.jobs import SynthesisRequest

FIELDS: Final = frozenset({"results", "job"})
"""What the prompt of a synthesis may name."""


class TooMuch(HeadraceError):
    """Results that are too long to be read at once by anybody."""


def check_synthesis(synthesis: SynthesisRequest) -> None:
    """Raises `TemplateError`."""
    unknown = sorted(Template(synthesis.prompt, needs="").names - FIELDS)
    if unknown:
        raise TemplateError(f"the synthesis's prompt names {{{unknown[0]}}}; it may name {{results}} and {{job}}")


async def synthesis_task(record: JobRecord, results: ResultView, limiter: trio.CapacityLimiter) -> str:
    """The prompt with the table of results. Raises `TooMuch`, `JobStorageError`."""
    assert record.request.synthesis is not None
    table = await trio.to_thread.run_sync(_table, results, limiter=limiter)
    fields = {"results": table, "job": record.request.name}
    return Template(record.request.synthesis.prompt, needs="").fill(fields, record.job)


def _table(results: ResultView) -> str:
    """A line of JSON for each item that was begun, in the order of the inputs: its last result."""
    rows: list[str] = []
    size = 0
    try:
        with results.path.open("rb") as file:
            for offset in _last_lines(results):
                file.seek(offset)
                line = msgspec.json.decode(file.readline(), type=JobLine)
                if line.never_begun:
                    continue
                row = _row(line)
                size += len(row)
                if size > MAX_ITEM_BYTES:
                    raise TooMuch(f"the results are longer than {MAX_ITEM_BYTES // 1024 // 1024} MiB")
                rows.append(row)
    except OSError as error:
        raise storage_error(results.path, "cannot be read", error) from error
    return "\n".join(rows)


def _last_lines(results: ResultView) -> "array[int]":
    """Where the last line of each ordinal begins, by ordinal. Raises `OSError`."""
    offsets, at = array("q"), 0
    decoder = msgspec.json.Decoder(_Ordinal)
    with results.path.open("rb") as file:
        while at < results.size:
            line = file.readline()
            if not line:
                raise OSError(os.strerror(5))
            ordinal = decoder.decode(line).ordinal
            if ordinal >= len(offsets):
                offsets.extend([-1] * (ordinal + 1 - len(offsets)))
            offsets[ordinal] = at
            at += len(line)
    return array("q", (offset for offset in offsets if offset >= 0))


class _Ordinal(msgspec.Struct):
    ordinal: int


def _row(line: JobLine) -> str:
    row: dict[str, object] = {"item": line.ordinal, "origin": line.origin, "state": line.state, "value": line.value}
    if line.state == "failed":
        row |= {"reason": line.reason, "error": line.error}
    return msgspec.json.encode(row).decode()
