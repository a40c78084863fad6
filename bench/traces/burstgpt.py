"""BurstGPT's format (HPMLL/BurstGPT, CC-BY-4.0): a university's calls to OpenAI's models.

Columns: `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`; later files also have `Session ID` and
`Elapsed time`. The kind of log (API or conversation) is the tenant, the model the job, the session the run. A row
without response tokens is a call that failed; nothing says what it would have come to, so it is left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.traces.base import TraceCall
from bench.traces.rows import Row, rows

COLUMNS: Final = ("Timestamp", "Model", "Request tokens", "Response tokens", "Log Type")
_SESSION: Final = "Session ID"
_ELAPSED: Final = "Elapsed time"


def read_burstgpt(path: Path) -> Iterator[TraceCall]:
    """The calls that succeeded, in the file's order. Raises `TraceError`."""
    for row in rows(path, COLUMNS):
        output = row.tokens("Response tokens")
        given, at = row.tokens("Request tokens"), row.seconds("Timestamp")
        if output:
            yield TraceCall(
                at=at,
                input=given,
                output=output,
                tenant=row.text("Log Type") or "default",
                job=row.text("Model"),
                run=row.text(_SESSION) if row.has(_SESSION) else "",
                seconds=_elapsed(row),
            )


def _elapsed(row: Row) -> float | None:
    """How long the call took; 0 stands for not recorded."""
    return (row.optional_seconds(_ELAPSED) or None) if row.has(_ELAPSED) else None
