"""Azure's traces of LLM inference (Azure/AzurePublicDataset, CC-BY-4.0), those of 2023 and of 2024.

Columns: `TIMESTAMP,ContextTokens,GeneratedTokens`. Times are of a clock, to 100 ns, with or without a zone. Nothing
says whose a request was, so all are one tenant's; a replay may part them among several (`bench.replay`).
"""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.traces.base import TraceCall
from bench.traces.rows import Row, rows

COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read_azure(path: Path) -> Iterator[TraceCall]:
    """The calls in the file's order, timed from its first. Raises `TraceError`."""
    first: datetime.datetime | None = None
    for row in rows(path, COLUMNS):
        moment = _moment(row)
        first = first or moment
        yield TraceCall(
            at=(moment - first).total_seconds(),
            input=row.tokens("ContextTokens"),
            output=max(1, row.tokens("GeneratedTokens")),
        )


def _moment(row: Row) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(row.text("TIMESTAMP"))
    except ValueError:
        raise row.bad("TIMESTAMP", "a time like 2023-11-16 18:15:46.6805900") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
